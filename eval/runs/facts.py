"""What run.json tells of a run, read so that a missing part is only not shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lessons_loop.eval.stats.verdict import MARGIN
from lessons_loop.filter.errors import StoreError
from lessons_loop.promote.state import clean_domain

SHORT = 12
"""Digits of a digest that are shown."""


@dataclass(frozen=True)
class RunFacts:
    """What was asked of whom; nothing here is a secret."""

    begun: str = ""
    runs: int = 1
    margin: float = MARGIN
    seed: int = 0
    smallest_lift: float | None = None
    """None: it was not stated before the run."""
    stand_in: bool = False
    """A script stood in for the model."""
    questions: str = ""
    """Name of the question set."""
    question_set: str = ""
    """First digits of its digest."""
    expected: int = 0
    """Trials of the whole run."""
    model: str = ""
    place: str = ""
    """Where the model answers."""
    domain: str = ""
    lessons: int = 0
    lesson_set: str = ""
    """First digits of the lesson set's digest."""
    rev: int = 0
    judge: str = ""


def read_facts(settings: Mapping[str, Any]) -> RunFacts:
    """Return what the settings tell; parts of a wrong type are left out."""
    questions, lessons = _part(settings, "questions"), _part(settings, "lessons")
    agent, judge = _part(settings, "agent"), settings.get("judge")
    runs = max(1, _whole(settings.get("runs")))
    arms = settings.get("arms")
    count = _whole(questions.get("count")) * (len(arms) if isinstance(arms, list) else 0)
    lift, margin = settings.get("smallest_lift"), settings.get("margin")
    return RunFacts(
        begun=_text(settings.get("begun")),
        runs=runs,
        margin=float(margin) if isinstance(margin, int | float) else MARGIN,
        seed=_whole(settings.get("seed")),
        smallest_lift=float(lift) if isinstance(lift, int | float) else None,
        stand_in=settings.get("stand_in") is True,
        questions=_text(questions.get("name")),
        question_set=_text(questions.get("digest"))[:SHORT],
        expected=count * runs,
        model=_text(settings.get("model")) or _text(agent.get("model")),
        place=_text(agent.get("url")),
        domain=_domain(lessons.get("domain")) or _domain(settings.get("domain")),
        lessons=_whole(lessons.get("count")),
        lesson_set=_text(lessons.get("digest"))[:SHORT],
        rev=_whole(lessons.get("rev")),
        judge=_text(judge.get("name") or judge.get("model") if isinstance(judge, dict) else judge),
    )


def _part(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = settings.get(name)
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _domain(value: object) -> str:
    try:
        return clean_domain(_text(value))
    except StoreError:
        return ""
