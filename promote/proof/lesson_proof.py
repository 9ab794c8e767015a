"""What was measured about one lesson: leave-one-out, stored on its curated row as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Self

from pydantic import BaseModel, ConfigDict, Field

from lessons_loop.promote.clock import parse_iso
from lessons_loop.promote.counting import many

if TYPE_CHECKING:
    from lessons_loop.filter.models import Curated

PROOF_WORDS = "^(helps|harmful|neutral|underpowered)$"
Rate = Annotated[float, Field(ge=0, le=1)]
Bound = Annotated[float, Field(allow_inf_nan=False)]
Number = Annotated[int, Field(ge=0, lt=2**31)]


class LessonProof(BaseModel):
    """The outcome of a leave-one-out measurement."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    verdict: Annotated[str, Field(pattern=PROOF_WORDS)]
    questions: Number
    """Questions whose recall includes the lesson."""
    runs: Number
    """Times each was asked with and without it."""
    with_rate: Rate
    """Pass rate with the lesson."""
    without_rate: Rate
    fixed: Number
    """Questions that pass with it and fail without it."""
    broken: Number
    p: Rate
    """Exact McNemar test, two-sided."""
    low: Bound
    high: Bound
    """95 % interval of the lift, -1 to 1."""
    model: str = ""
    question_set: str = ""
    """First 12 digits of the question set's digest."""
    at: str = ""

    @classmethod
    def of(cls, lesson: Curated) -> Self | None:
        """Return a lesson's proof, None where it has none that can be read."""
        if not lesson.proof:
            return None
        try:
            return cls.model_validate_json(lesson.proof)
        except ValueError:
            return None

    @classmethod
    def against(cls, lesson: Curated) -> Self | None:
        """Return the proof of harm that counts against a lesson, None without one.

        One from before the lesson came in counts no more: a person revived it, knowing that.
        """
        proof = cls.of(lesson)
        if proof is None or proof.verdict != "harmful":
            return None
        measured, since = parse_iso(proof.at), parse_iso(lesson.since)
        late = measured is not None and since is not None and measured <= since
        return None if late else proof

    @property
    def lift(self) -> float:
        """Return what the lesson adds to the pass rate, -1 to 1."""
        return self.with_rate - self.without_rate

    def told(self) -> str:
        """Return the numbers in one line, without the verdict."""
        rates = f"{self.with_rate:.0%} with it, {self.without_rate:.0%} without"
        span = f"95 % {points(self.low)} to {points(self.high)}"
        asked = f"{many(self.questions, 'question')}, {many(self.runs, 'run')}"
        model = f", {self.model}" if self.model else ""
        return f"{rates} ({asked}; {span}, p {self.p:.2g}{model}, {self.at[:10]})"


def points(share: float) -> str:
    """Return a difference of two rates in points, signed."""
    return f"{100 * share:+.0f}"
