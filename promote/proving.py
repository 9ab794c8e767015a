"""How the gate asks whether a batch helps: a function it is given, made outside of it.

The gate never reads a question; it hands over lessons and gets numbers back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lessons_loop.filter.embed import Embedder, Fingerprint, Vectors
from lessons_loop.filter.models import Curated


@dataclass(frozen=True)
class LessonSet:
    """Lessons with their vectors, in memory: a copy that nobody else reads."""

    domain: str
    lessons: tuple[Curated, ...]
    vectors: Vectors
    """Unit rows, shape (lessons, dimension), same order as `lessons`."""
    fingerprint: Fingerprint | None = None
    rev: int = 0


class ProofCase(NamedTuple):
    """A batch before anything of it is written."""

    before: LessonSet
    after: LessonSet
    new: tuple[str, ...]
    """Keys the batch would bring into curated."""
    embedder: Embedder | None
    state: Path
    """The state directory: where baselines are kept."""


@dataclass(frozen=True)
class ProofResult:
    """What came out."""

    passed: bool
    reason: str
    """One sentence with the numbers and ids of questions; never a question's text."""
    figures: dict[str, Any] = field(default_factory=dict)
    """JSON values for the ledger and the run's line."""


Prover = Callable[[ProofCase], ProofResult]
"""Raises LessonsError where no proof came about: then nothing is promoted."""
