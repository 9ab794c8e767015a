"""Write exchanges briefly: `user("q"), *tool("run_sql", "3 rows", sql="...")`."""

from __future__ import annotations

import itertools
import json
from typing import Any

from lessons_loop.filter.transcript import Turn, read_transcript

_numbers = itertools.count(1)


def user(text: str) -> dict[str, Any]:
    """Return a user's message."""
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    """Return an assistant's message."""
    return {"role": "assistant", "content": text}


def tool(name: str, result: str, /, **arguments: object) -> list[dict[str, Any]]:
    """Return a call and its result."""
    call_id = f"call_{next(_numbers)}"
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": call_id, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": result},
    ]


def turns(*messages: dict[str, Any]) -> tuple[Turn, ...]:
    """Return the transcript of messages."""
    return read_transcript(messages)


def lesson(text: str, lines: list[int], quote: str, **fields: object) -> dict[str, object]:
    """Return one lesson of a reply."""
    shape = {"kind": "schema-map", "trigger": "questions of this sort", "tags": ["sql"]}
    return {"text": text, "lines": lines, "quote": quote} | shape | fields


def reply(*lessons: dict[str, object]) -> str:
    """Return the reply with these lessons."""
    return json.dumps({"lessons": lessons}, ensure_ascii=False)
