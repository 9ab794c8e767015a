"""The demo's parts for tests: database, tool as Open WebUI loads it, practice server."""

from __future__ import annotations

import asyncio
import json
import types
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import requests

from lessons_loop.deploy.demo.practice_model import AS_IT_IS, PracticeServer
from lessons_loop.deploy.demo.practice_options import PracticeOptions
from lessons_loop.eval.serving import serving


def load_tool(database: Path) -> Any:
    """Return the tool, loaded from its text the way a pasted tool is, on `database`."""
    source = files("lessons_loop.deploy.demo").joinpath("sql_tool.py").read_text("utf-8")
    module = types.ModuleType("pasted_sql_tool")
    exec(compile(source, "pasted_sql_tool", "exec"), module.__dict__)
    tool = module.Tools()
    tool.valves = tool.Valves(database=str(database))
    return tool


def call_tool(tool: Any, name: str, arguments: dict[str, Any]) -> str:
    """Call a tool as Open WebUI does: what is raised becomes {"error": ...}."""
    try:
        return str(asyncio.run(getattr(tool, name)(**arguments)))
    except Exception as error:
        return json.dumps({"error": str(error)}, indent=2)


@contextmanager
def practice_server(log: Path | None = None, options: PracticeOptions = AS_IT_IS) -> Iterator[str]:
    """Run the practice model in this process; yield its base URL."""
    with serving(PracticeServer(0, log, options)) as server:
        yield server.url


TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("run_sql", "describe_tables", "get_current_timestamp")
]


def ask(url: str, messages: list[dict[str, Any]], **extra: Any) -> dict[str, Any]:
    """Return the message of a non-streamed answer."""
    body = {"model": "practice-model", "messages": messages, **extra}
    reply = requests.post(f"{url}/chat/completions", json=body, timeout=10)
    reply.raise_for_status()
    message: dict[str, Any] = reply.json()["choices"][0]["message"]
    return message


def converse(url: str, tool: Any, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Play Open WebUI's tool loop until the model answers in words; return all messages."""
    messages = list(messages)
    for _ in range(8):
        message = ask(url, messages, tools=TOOLS)
        messages.append(message)
        calls = message.get("tool_calls")
        if not calls:
            return messages
        for call in calls:
            arguments = json.loads(call["function"]["arguments"])
            result = call_tool(tool, call["function"]["name"], arguments)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    raise AssertionError("the model never answered")


def called(messages: list[dict[str, Any]]) -> list[str]:
    """Return the names of the tools called, in order."""
    return [c["function"]["name"] for m in messages for c in m.get("tool_calls") or ()]
