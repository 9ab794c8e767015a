"""Questions in two arms side by side: who passed how often, and what flipped.

N runs of one question are no N questions: each question counts once, by the majority of
its runs; a tie is no outcome. Runs without a grade are missing, never failures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from lessons_loop.eval.trials import Arm, Grade, Trial
from lessons_loop.filter.models import FrozenModel

Count = Annotated[int, Field(ge=0)]


class Effect(StrEnum):
    """What lessons made of a question."""

    FIXED = "fixed"
    BROKEN = "broken"
    PASSES_ANYWAY = "passes anyway"
    """Passes without lessons too: says nothing about them."""
    FAILS_ANYWAY = "fails anyway"
    UNDECIDED = "undecided"
    """As many passes as failures in an arm."""


class Pair(FrozenModel):
    """One question in two arms; only runs with a grade count."""

    question: str
    topic: str
    off_passed: Count
    off_judged: Annotated[int, Field(ge=1)]
    on_passed: Count
    on_judged: Annotated[int, Field(ge=1)]

    @property
    def off(self) -> float:
        """Return the pass rate without lessons."""
        return self.off_passed / self.off_judged

    @property
    def on(self) -> float:
        """Return the pass rate with lessons."""
        return self.on_passed / self.on_judged

    @property
    def difference(self) -> float:
        """Return the rate with lessons less the one without, -1 to 1."""
        return self.on - self.off

    @property
    def effect(self) -> Effect:
        """Return what became of the majority."""
        off, on = 2 * self.off_passed - self.off_judged, 2 * self.on_passed - self.on_judged
        if off == 0 or on == 0:
            return Effect.UNDECIDED
        if off < 0:
            return Effect.FIXED if on > 0 else Effect.FAILS_ANYWAY
        return Effect.BROKEN if on < 0 else Effect.PASSES_ANYWAY

    @property
    def consistent(self) -> bool:
        """Say whether all runs of each arm went the same way, two at least: no chance flip."""
        same = self.off_passed in (0, self.off_judged) and self.on_passed in (0, self.on_judged)
        return same and min(self.off_judged, self.on_judged) > 1


def pairs_of(
    trials: Iterable[Trial], on: Arm = Arm.ON, off: Arm = Arm.OFF, *, control: bool = False
) -> tuple[Pair, ...]:
    """Return the questions judged at least once in both arms, by id."""
    counts: dict[str, dict[str, int]] = {}
    topics: dict[str, str] = {}
    for one in trials:
        if one.control is not control or one.arm not in (on, off) or one.grade is Grade.UNJUDGED:
            continue
        side = "on" if one.arm is on else "off"
        topics[one.question] = one.topic
        mine = counts.setdefault(one.question, {})
        mine[f"{side}_judged"] = mine.get(f"{side}_judged", 0) + 1
        passed = mine.get(f"{side}_passed", 0) + (one.grade is Grade.PASS)
        mine[f"{side}_passed"] = passed
    both = {name: mine for name, mine in counts.items() if len(mine) == 4}
    return tuple(
        Pair.model_validate({"question": name, "topic": topics[name], **both[name]})
        for name in sorted(both)
    )


def questions_asked(trials: Iterable[Trial], arms: Sequence[Arm], *, control: bool) -> set[str]:
    """Return the ids of the questions asked in any of the arms."""
    return {one.question for one in trials if one.arm in arms and one.control is control}


def with_effect(pairs: Iterable[Pair], wanted: Effect) -> tuple[str, ...]:
    """Return the ids of the questions that changed so."""
    return tuple(one.question for one in pairs if one.effect is wanted)
