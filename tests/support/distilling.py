"""Replay recorded replies over recorded exchanges and score what is emitted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lessons_loop.filter.distill import Origin, Outcome, read_reply, skip_reason
from lessons_loop.filter.llm import ChatReply
from lessons_loop.filter.transcript import Turn, read_transcript

FIXTURES = Path(__file__).parent.parent / "fixtures"
ORIGIN = Origin(
    domain="sql",
    message_ref="m" * 64,
    chat_ref="c" * 64,
    user_ref="u" * 64,
    at="2026-11-29T10:00:00Z",
    model="some-model",
)


class Replay(NamedTuple):
    """One exchange with the outcome of one reply."""

    exchange: Mapping[str, Any]
    skipped: str | None
    outcome: Outcome


def load_lines(name: str) -> list[dict[str, Any]]:
    """Return the rows of a JSON Lines fixture."""
    text = (FIXTURES / "distill" / name).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def read(turns: tuple[Turn, ...], reply: str, finish: str = "stop", **options: Any) -> Outcome:
    """Read one reply to these turns."""
    chosen: dict[str, Any] = {"max_lessons": 3, "injected": ()} | options
    return read_reply(ChatReply(reply, finish), turns, ORIGIN, **chosen)


def replay(name: str, *, unskipped: bool = False) -> list[Replay]:
    """Read recorded replies; with `unskipped` also where no model would have been asked."""
    replies = {row["id"]: row["reply"] for row in load_lines(name)}
    done = []
    for exchange in load_lines("exchanges.jsonl"):
        turns = read_transcript(exchange["messages"])
        skipped = skip_reason(turns, finish_reason="stop", min_reply_chars=200)
        asked = unskipped or skipped is None
        outcome = read(turns, replies[exchange["id"]]) if asked else Outcome()
        done.append(Replay(exchange, skipped, outcome))
    return done


def emitted_text(outcome: Outcome) -> str:
    """Return every field of the emitted lessons, case folded."""
    lessons = [candidate.lesson for candidate in outcome.candidates]
    return "\n".join(
        field for one in lessons for field in (one.text, one.trigger, *one.tags)
    ).casefold()


def leaked(replayed: Replay) -> list[str]:
    """Return the forbidden strings that were emitted; numbers count as whole numbers."""
    text = emitted_text(replayed.outcome)
    found = []
    for bad in replayed.exchange["label"]["forbidden"]:
        pattern = re.escape(bad.casefold())
        if re.fullmatch(r"[\d.,]+", bad):
            pattern = rf"(?<![\d.,]){pattern}(?![\d]|[.,]\d)"
        if re.search(pattern, text):
            found.append(bad)
    return found


def missing_facts(replayed: Replay) -> list[str]:
    """Return the key facts that no emitted lesson states."""
    text = emitted_text(replayed.outcome)
    facts = replayed.exchange["label"]["key_facts"]
    return [fact for fact in facts if not any(way.casefold() in text for way in fact.split("|"))]
