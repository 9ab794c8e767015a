"""How the gate asks whether a batch helps: a function it is given, made outside of it.

The gate never reads a question; it hands over lessons and gets numbers back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lessons_loop.filter.errors import LessonsError

if TYPE_CHECKING:
    from lessons_loop.filter.embed import Embedder, Fingerprint, Vectors
    from lessons_loop.filter.models import Curated, Lesson
    from lessons_loop.promote.session import GateSession

PROOF = "proof"
"""Rule of what a batch's proof decided."""


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
    keep: bool = True
    """False in a preview: a baseline taken for it is not kept either."""


@dataclass(frozen=True)
class ProofResult:
    """What came out."""

    passed: bool
    reason: str
    """One sentence with the numbers and ids of questions; never a question's text."""
    figures: dict[str, Any] = field(default_factory=dict)
    """JSON values for the ledger and the run's line."""

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"passed": self.passed, "reason": self.reason, **self.figures}


Prover = Callable[[ProofCase], ProofResult]
"""Raises LessonsError where no proof came about: then nothing is promoted."""
ProverMaker = Callable[[str], Prover]
"""Makes one for a set of questions, a shipped one's name or a folder; raises LessonsError."""
CHANGED = "lessons were decided on while the proof ran: nothing is promoted, run again"
NOTHING_NEW = ProofResult(True, "no lesson is new: nothing had to be proven")
_makers: list[ProverMaker] = []


def register_prover(maker: ProverMaker) -> None:
    """Name what makes provers; the evaluation is a part the gate may not import."""
    _makers[:] = [maker]


def prover_for(questions: str) -> Prover:
    """Return the prover for a set of questions; raise LessonsError."""
    if not _makers:
        raise LessonsError("--proof needs the `lessons` command")
    return _makers[0](questions)


def lesson_set_of(session: GateSession) -> LessonSet:
    """Return what curated holds now, as it would be published; raise StoreDamaged."""
    keys, vectors = session.nearest_vectors()
    lessons = tuple(session.curated[key] for key in keys)
    header = session.holdings.header
    model = header.fingerprint or session.holdings.model
    return LessonSet(session.domain, lessons, vectors.copy(), model, header.rev)


def as_recalled(lesson: Lesson) -> str:
    """Return a lesson as recall reads it: another trigger under the same key is another one."""
    return "\n".join([lesson.key, lesson.trigger, *lesson.tags])


def state_of(session: GateSession) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what a proof rests on: lessons as recall reads them, and the held ones."""
    curated = (as_recalled(row.lesson) for row in session.curated.values())
    return tuple(sorted(curated)), tuple(sorted(row.id for row in session.held()))
