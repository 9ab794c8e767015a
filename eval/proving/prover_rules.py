"""When is a question broken: it passed repeatedly before, and fails repeatedly now. Pure.

A question is suspected where most of its runs passed before and none passes now. With three
runs chance alone does that: with answers that go wrong in 3 of 10 cases to 2 questions in 100.
So a suspect is asked five times more in both arms, with new seeds, and is broken only where
it passes at least three times more often before than now. The exact rates for a question whose
lessons changed nothing (false) and for one that never passes any more (found):

    answers go wrong   suspected   false           found
    10 %               1 in 1,000  1 in 200,000    96 in 100
    20 %               7 in 1,000  1 in 6,400      84 in 100
    30 %               21 in 1,000 1 in 1,200      66 in 100
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lessons_loop.eval.trials import Arm, Grade, Trial

BEFORE, AFTER = Arm.OFF, Arm.ON
"""Under which arms the two sets of lessons stand."""
AGAIN = 5
"""Further runs of a suspect in each arm."""
GAP = 0.6
"""How much more often it must pass before than now: 3 of 5."""
LEAST = 2
"""Graded runs below which nothing was repeated."""


class Passes(NamedTuple):
    """How often a question passed in one arm."""

    passed: int = 0
    graded: int = 0

    @property
    def rate(self) -> float:
        """Share that passed; 0 where nothing was graded."""
        return self.passed / self.graded if self.graded else 0.0


def passes(trials: Iterable[Trial], arm: Arm) -> dict[str, Passes]:
    """Return each question's passes in one arm."""
    found: dict[str, Passes] = {}
    for one in trials:
        if one.arm is arm and one.grade is not Grade.UNJUDGED:
            old = found.get(one.question, Passes())
            found[one.question] = Passes(old.passed + (one.grade is Grade.PASS), old.graded + 1)
    return found


def suspects(trials: Iterable[Trial]) -> tuple[str, ...]:
    """Return the questions that passed mostly before and never now, by id."""
    rows = list(trials)
    before, after = passes(rows, BEFORE), passes(rows, AFTER)
    return tuple(name for name in sorted(before) if is_suspect(before[name], after.get(name)))


def is_suspect(before: Passes, after: Passes | None) -> bool:
    """Say whether a question is to be asked again."""
    if after is None or min(before.graded, after.graded) < LEAST:
        return False
    return before.rate > 0.5 and after.passed == 0


def broken(trials: Iterable[Trial], suspected: Iterable[str]) -> tuple[str, ...]:
    """Return the suspects that further runs confirm; one nobody could grade counts as such."""
    rows = list(trials)
    before, after = passes(rows, BEFORE), passes(rows, AFTER)
    return tuple(name for name in suspected if is_confirmed(name, before, after))


def is_confirmed(name: str, before: Mapping[str, Passes], after: Mapping[str, Passes]) -> bool:
    """Say whether a suspect still passes before and fails now."""
    old, new = before.get(name, Passes()), after.get(name, Passes())
    if min(old.graded, new.graded) < LEAST:
        return True
    return old.rate - new.rate >= GAP - 1e-9
