"""What can be seen of one chat: in the page, in Open WebUI's database, in the provider's log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lessons_loop.deploy.webui.browser import Turn
from lessons_loop.deploy.webui.client import Json


@dataclass(frozen=True)
class Call:
    """One tool call the server carried out."""

    tool: str
    arguments: str
    result: str
    refused: bool


@dataclass(frozen=True)
class Exchange:
    """One question and all that happened until its answer."""

    question: str
    answer: str
    calls: tuple[Call, ...]
    status: tuple[str, ...]
    """Status lines the user saw."""
    sources: tuple[str, ...]
    """Names of the sources under the answer, as the user saw them."""
    system: tuple[str, ...]
    """The system text of each request the provider received for this question."""

    @property
    def refused(self) -> int:
        """How many of the calls were refused."""
        return sum(call.refused for call in self.calls)


def read_exchange(question: str, turn: Turn, message: Json, log: Path) -> Exchange:
    """Put together what page, database and provider's log say about one question."""
    return Exchange(
        question=question,
        answer=str(message.get("content", "")).strip(),
        calls=read_calls(message.get("output") or []),
        status=tuple(str(status.get("description")) for status in turn.of_type("status")),
        sources=tuple(
            str(source.get("source", {}).get("name"))
            for source in turn.of_type("source", "citation")
        ),
        system=tuple(received_system(log, question)),
    )


def read_calls(output: list[Json]) -> tuple[Call, ...]:
    """Return the tool calls among a stored answer's output items, with their results."""
    results = {
        item["call_id"]: item for item in output if item.get("type") == "function_call_output"
    }
    calls = [item for item in output if item.get("type") == "function_call"]
    return tuple(read_call(call, results.get(call["call_id"], {})) for call in calls)


def read_call(call: Json, result: Json) -> Call:
    """Return one call with its result as text."""
    parts = result.get("output") or []
    text = parts if isinstance(parts, str) else "\n".join(str(part.get("text")) for part in parts)
    failed = "failed" in (call.get("status"), result.get("status")) or is_error(text)
    return Call(str(call["name"]), argument_text(str(call.get("arguments", ""))), text, failed)


def is_error(text: str) -> bool:
    """Tell whether a tool result is an error by its shape."""
    try:
        content = json.loads(text)
    except ValueError:
        return False
    return isinstance(content, dict) and "error" in content


def argument_text(arguments: str) -> str:
    """Return a call's arguments for people: the query alone where there is one."""
    try:
        content = json.loads(arguments)
    except ValueError:
        return arguments
    if isinstance(content, dict) and isinstance(content.get("sql"), str):
        return " ".join(content["sql"].split())
    return "" if content == {} else arguments


def received_system(log: Path, question: str) -> list[str]:
    """Return the system text of each chat request about `question`, oldest first."""
    try:
        lines = log.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
    entries = [json.loads(line) for line in lines]
    bodies = [entry["body"] for entry in entries if entry.get("role") == "chat"]
    return [text_of_role(body, "system") for body in bodies if asks(body, question)]


def asks(body: Mapping[str, Any], question: str) -> bool:
    """Tell whether a request is about `question`."""
    return question in text_of_role(body, "user")


def text_of_role(body: Mapping[str, Any], role: str) -> str:
    """Return all text of one role in a request."""
    contents = [message.get("content") for message in body["messages"] if message["role"] == role]
    return "\n".join(content for content in contents if isinstance(content, str))
