"""What one lesson does: the questions that recall it, with all lessons and with all but it.

Without it another lesson may take its place in the request; that is part of what is measured.
The answers with all lessons are asked for once and serve every lesson.
Covered: too few questions are said to be too few, and what they could show.
Not covered: two lessons that say the same: each is measured as doing nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lessons_loop.eval.proving.asking import Asking, ask, models_of
from lessons_loop.eval.question_set import EvalQuestion
from lessons_loop.eval.shelf import Shelf, known_texts, without
from lessons_loop.eval.stats.compare import Comparison, compare, smallest_visible_lift
from lessons_loop.eval.trials import Arm, Trial
from lessons_loop.filter.embed import Embedder
from lessons_loop.filter.models import Curated
from lessons_loop.promote.clock import iso, utc_now
from lessons_loop.promote.counting import many
from lessons_loop.promote.proof.lesson_proof import LessonProof, points
from lessons_loop.promote.proof.proving import LessonSet

WITH, WITHOUT = Arm.ON, Arm.OFF


class Measured(NamedTuple):
    """What came out for one lesson."""

    row: Curated
    proof: LessonProof | None
    """None: no question recalls it, or nothing could be graded."""
    fixed: tuple[str, ...] = ()
    """Ids of the questions that pass with it and fail without it."""
    broken: tuple[str, ...] = ()
    visible: float | None = None
    """The least lift these questions could show, where they show nothing."""
    asked: int = 0
    """Questions that recall it."""

    def told(self) -> str:
        """Return it as a sentence."""
        if self.proof is None:
            why = "no answer could be graded" if self.asked else "no question recalls it"
            return f"unmeasured: {why}"
        told = f"{self.proof.verdict}: {self.proof.told()}"
        if self.visible is None:
            return told
        asked = many(self.proof.questions, "question")
        if self.visible >= 1:
            return f"{told}; {asked}: too few to show any lift"
        return f"{told}; {asked}: only a lift of {points(self.visible)} points would show"

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        found = self.proof.model_dump(mode="json") if self.proof else {"verdict": "unmeasured"}
        return {
            "id": self.row.key[:12],
            "key": self.row.key,
            **found,
            "fixed_ids": list(self.fixed),
            "broken_ids": list(self.broken),
            "visible_lift": self.visible,
        }


def questions_by_lesson(
    found: LessonSet, embedder: Embedder | None, questions: Sequence[EvalQuestion]
) -> dict[str, list[str]]:
    """Return the ids of the questions proper that recall each lesson, by its key."""
    shelf = Shelf(found, embedder)
    by_lesson: dict[str, list[str]] = {}
    for question in questions:
        for row in () if question.control else shelf.recalled(question.messages):
            by_lesson.setdefault(row.key, []).append(question.id)
    return by_lesson


def measure(
    asking: Asking,
    found: LessonSet,
    embedder: Embedder | None,
    wanted: Collection[str],
    margin: float = 0.05,
) -> Iterator[Measured]:
    """Yield what each wanted lesson does, in the set's order; raise RunStopped, TooManyUnjudged.

    `wanted` are keys of lessons in the set.
    """
    texts = known_texts(embedder) if embedder else None
    by_lesson = questions_by_lesson(found, texts, asking.questions.questions)
    rows = [row for row in found.lessons if row.key in wanted]
    needed = {name for row in rows for name in by_lesson.get(row.key, ())}
    with_all: list[Trial] = []
    if needed:
        with asking.opened(found, texts) as agent:
            with_all = ask(asking, agent, WITH, asking.some(needed))
    for row in rows:
        mine = by_lesson.get(row.key, [])
        if not mine:
            yield Measured(row, None)
            continue
        with asking.opened(without(found, [row.key]), texts) as agent:
            bare = ask(asking, agent, WITHOUT, asking.some(mine))
        both = [*(one for one in with_all if one.question in set(mine)), *bare]
        yield judged(asking, row, compare(both, WITH, WITHOUT, margin, asking.seed), both)


def judged(asking: Asking, row: Curated, found: Comparison, trials: Sequence[Trial]) -> Measured:
    """Return a comparison as the lesson's proof."""
    asked = len({one.question for one in trials})
    if found.on.rate is None or found.off.rate is None or not found.questions:
        return Measured(row, None, asked=asked)
    proof = LessonProof(
        verdict=found.verdict,
        questions=found.questions,
        runs=found.runs,
        with_rate=found.on.rate,
        without_rate=found.off.rate,
        fixed=len(found.fixed),
        broken=len(found.broken),
        p=found.p,
        low=found.low,
        high=found.high,
        model=models_of(trials) or asking.model,
        question_set=asking.questions.digest[:12],
        at=iso(utc_now()),
    )
    visible = None
    if found.verdict == "underpowered":
        visible = smallest_visible_lift(found.questions, found.topics, found.runs)
    return Measured(row, proof, found.fixed, found.broken, visible, asked)


def counted(found: Sequence[Measured]) -> Mapping[str, int]:
    """Return how many lessons came out how."""
    return Counter(one.proof.verdict if one.proof else "unmeasured" for one in found)
