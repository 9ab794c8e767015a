"""Events of use and rating, and a store whose lessons they are about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lessons_loop.filter.events import Rating, Usage
from support.gate import candidate, gate, promotion
from support.templates import copied

USED = "2026-11-02T08:00:00Z"
TEXTS = ("Look serials up in equipment_machine.", "Bound every telemetry read.")


def usage(*keys: str, message: str = "m", at: str = USED, **fields: Any) -> Usage:
    return Usage(keys=keys, message_ref=message, at=at, **fields)


def rating(outcome: str, *keys: str, message: str = "m", minute: int = 0, **fields: Any) -> Rating:
    at = f"2026-11-02T09:{minute:02}:00Z"
    return Rating(**({"keys": keys, "outcome": outcome, "message_ref": message, "at": at} | fields))


def with_lessons(root: Path) -> list[str]:
    """Make a store with the lessons of TEXTS; return their keys."""
    copied(_promote, root)
    return [candidate(text).lesson.key for text in TEXTS]


def _promote(root: Path) -> None:
    with gate(root) as session:
        for text in TEXTS:
            session.apply(promotion(session, candidate(text)))
