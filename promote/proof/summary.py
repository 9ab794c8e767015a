"""What measurements say of a domain's lessons, as status and report tell it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from lessons_loop.promote.proof.lesson_proof import LessonProof

if TYPE_CHECKING:
    from lessons_loop.filter.models import Curated

MOST = 50
"""Measured lessons that are listed, the harmful ones first."""
ORDER = ("harmful", "helps", "neutral", "underpowered")


class ProvenLesson(BaseModel):
    """One measured lesson."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    key: str
    text: str = ""
    proof: LessonProof


class ProofSummary(BaseModel):
    """How a domain's curated lessons were measured."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    counts: dict[str, int] = Field(default_factory=dict)
    """Lessons by verdict, `unmeasured` ones too; empty: none was ever measured."""
    lessons: tuple[ProvenLesson, ...] = ()
    harmful: tuple[str, ...] = ()
    """Keys of lessons in use that the next run holds for it."""

    def told(self) -> str:
        """Return the counts in words; empty where nothing was measured."""
        return ", ".join(f"{count} {word}" for word, count in self.counts.items())


def proof_summary(curated: Iterable[Curated]) -> ProofSummary:
    """Return what was measured about these lessons."""
    rows = list(curated)
    found = [
        ProvenLesson(key=row.key, text=row.lesson.text, proof=proof)
        for row in rows
        if (proof := LessonProof.of(row)) is not None
    ]
    if not found:
        return ProofSummary()
    words = Counter(one.proof.verdict for one in found)
    counts = {word: words[word] for word in ORDER if words[word]}
    if rest := len(rows) - len(found):
        counts["unmeasured"] = rest
    found.sort(key=lambda one: (ORDER.index(one.proof.verdict), one.proof.lift, one.key))
    harmful = tuple(sorted(row.key for row in rows if LessonProof.against(row)))
    return ProofSummary(counts=counts, lessons=tuple(found[:MOST]), harmful=harmful)


def proven_as_dict(found: ProofSummary) -> dict[str, Any]:
    """Return counts, and the lessons measured to do harm, as plain values."""
    return {"counts": dict(found.counts), "harmful": list(found.harmful)}
