"""A judging model played from recordings: replies are kept by pair, asked for by the lessons."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from support.llm_server import Received, Step, http_error, says

FIXTURES = Path(__file__).parents[1] / "fixtures"


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the records of a JSON-lines file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def asked_pair(received: Received) -> tuple[str, str]:
    """Return the texts of the curated and the new lesson a request is about."""
    content = received.body["messages"][-1]["content"].splitlines()[1]
    pair = json.loads(content)
    return pair["curated"]["text"], pair["new"]["text"]


def answers(reply_to: Callable[[tuple[str, str]], str | None]) -> Step:
    """Answer each pair as the function says, 404 where it says nothing."""

    def step(handler: BaseHTTPRequestHandler, received: Received) -> None:
        reply = reply_to(asked_pair(received))
        chosen = http_error(404, "no recording") if reply is None else says(reply)
        chosen(handler, received)

    return step


def recorded(replies: Path, *pairs: Path) -> Step:
    """Answer from a file of replies on the pairs of some files."""
    by_id = {row["id"]: row["reply"] for row in rows_of(replies)}
    known: Mapping[tuple[str, str], str] = {
        (row["a"], row["b"]): by_id[row["id"]]
        for path in pairs
        for row in rows_of(path)
        if row["id"] in by_id
    }
    return answers(known.get)
