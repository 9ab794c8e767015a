"""A whole evaluation run as it was asked for, and what its record says of it: run.json."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from typing import Any

from lessons_loop.eval.question_set import QuestionSet
from lessons_loop.eval.runs.folder import RunFolder
from lessons_loop.eval.runs.runner import MAX_UNJUDGED, RunPlan
from lessons_loop.eval.runs.sets import measured
from lessons_loop.eval.runs.setup import Grader
from lessons_loop.eval.shelf import digest_of
from lessons_loop.eval.stats.verdict import MARGIN
from lessons_loop.eval.trials import Agent
from lessons_loop.filter.embed import Embedder
from lessons_loop.filter.models import Curated
from lessons_loop.promote.clock import iso
from lessons_loop.promote.masking import mask_through
from lessons_loop.promote.proof.proving import LessonSet

LIBRARIES = ("lessons-loop", "chromadb", "numpy", "scipy", "pydantic")


@dataclass(frozen=True)
class AgentSource:
    """An agent that can be opened, and what the record says of it."""

    recorded: Mapping[str, Any]
    """JSON values with `kind` and `model`; no secret."""
    opened: Callable[[LessonSet | None, RunFolder, Embedder | None], AbstractContextManager[Agent]]
    practice: bool = False
    """Whether a script stands in for the model."""
    uses_tools: bool = False
    recalls: bool = True
    """Whether it is given lessons from here; False: it has its own."""
    brought: Mapping[str, Any] | None = None
    """What run.json says of lessons it brings itself."""
    kept: tuple[Mapping[str, Curated], Mapping[str, Sequence[str]]] | None = None
    """Lessons by key, and the keys each question recalls, where it brings them."""


@dataclass(frozen=True)
class Evaluation:
    """A whole run as it was asked for."""

    plan: RunPlan
    source: AgentSource
    grader: Grader
    judge: str
    """Name of who decides where no check can; empty: nobody."""
    lessons: LessonSet | None
    embedder: Embedder | None
    folder: RunFolder
    command: Mapping[str, Any]
    """Options a resumed run takes from the record."""
    questions_folder: str = ""
    store: str = ""
    workers: int = 4
    margin: float = MARGIN
    max_unjudged: float = MAX_UNJUDGED
    reference: bool = True
    """Whether there is a database that sql_result checks ask."""
    quiet: bool = False
    """What is said goes to stderr: stdout is for JSON."""
    judged_later: Callable[[RunFolder, QuestionSet], None] | None = None
    """Grades by hand what is left, once all is asked."""
    goes_on: str = "lessons eval run --resume"
    """The command that finishes it, up to the folder."""


def record_of(
    wish: Evaluation, recalled: Mapping[str, Sequence[Curated]], now: Callable[[], datetime]
) -> dict[str, Any]:
    """Return run.json: JSON values, no secret."""
    plan, found = wish.plan, wish.plan.questions
    counted, topics, controls = measured(found)
    return {
        "format": 1,
        "kind": "run",
        "begun": iso(now()),
        "domain": found.domain,
        "questions": {
            "name": found.domain,
            "digest": found.digest,
            "count": len(found.questions),
            "topics": topics,
            "controls": controls,
            "folder": mask_through(wish.questions_folder),
        },
        "arms": [arm.value for arm in plan.arms],
        "runs": plan.runs,
        "seed": plan.base_seed,
        "margin": wish.margin,
        "max_unjudged": wish.max_unjudged,
        "agent": dict(wish.source.recorded),
        "model": str(wish.source.recorded.get("model", "")),
        "stand_in": wish.source.practice,
        "judge": wish.judge,
        "embedding": wish.embedder.name if wish.embedder else "",
        "lessons": wish.source.brought or _lessons(wish, recalled),
        "smallest_lift": _visible(counted, topics, plan.runs),
        "versions": {name: _version(name) for name in LIBRARIES}
        | {"python": platform.python_version()},
        "command": dict(wish.command),
    }


def _lessons(wish: Evaluation, recalled: Mapping[str, Sequence[Curated]]) -> dict[str, Any] | None:
    found = wish.lessons
    if found is None:
        return None
    return {
        "count": len(found.lessons),
        "digest": digest_of(found),
        "rev": found.rev,
        "domain": found.domain,
        "title": mask_through(wish.store),
        "recalled_by": sum(bool(lessons) for lessons in recalled.values()),
    }


def _visible(questions: int, topics: int, runs: int) -> float:
    from lessons_loop.eval.stats.power import smallest_visible_lift

    return smallest_visible_lift(questions, topics, runs)


def _version(name: str) -> str:
    try:
        return version(name)
    except ImportError:  # PackageNotFoundError is one
        return ""
