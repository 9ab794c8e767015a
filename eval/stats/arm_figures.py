"""What one arm came to: pass rate with its interval, and what an answer cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated

from pydantic import Field

from lessons_loop.eval.stats.intervals import FEWEST_CLUSTERS, effective_count, wilson
from lessons_loop.eval.trials import Answer, Arm, Grade, Trial
from lessons_loop.filter.models import FrozenModel

DIGITS = 6
"""Places kept: the same trials give the same bytes in any order."""
Count = Annotated[int, Field(ge=0)]


class ArmFigures(FrozenModel):
    """One arm. Costs are means per answer; one that did not come (an outage) has none."""

    passed: Count = 0
    judged: Count = 0
    unjudged: Count = 0
    rate: float | None = None
    """passed / judged; None: nothing was judged."""
    low: float = 0.0
    high: float = 1.0
    """Wilson's 95 % over as many trials as the clustered ones are worth."""
    tokens_in: float = 0.0
    tokens_out: float = 0.0
    seconds: float = 0.0
    tool_calls: float = 0.0
    failed_calls: float = 0.0
    recalled: float = 0.0
    """Lessons in the request."""


def arm_figures(trials: Iterable[Trial], arm: Arm, *, control: bool = False) -> ArmFigures:
    """Return the figures of an arm, of the questions proper or of the controls."""
    mine = [one for one in trials if one.arm is arm and one.control is control]
    judged = [one for one in mine if one.grade is not Grade.UNJUDGED]
    passed = sum(one.grade is Grade.PASS for one in judged)
    counts = {"passed": passed, "judged": len(judged), "unjudged": len(mine) - len(judged)}
    return ArmFigures.model_validate(counts | _shares(judged, passed) | _costs(mine))


def _shares(judged: Sequence[Trial], passed: int) -> dict[str, float]:
    if not judged:
        return {}
    sums, sizes = by_cluster(judged)
    worth = effective_count(sums, sizes, len({one.question for one in judged}))
    rate = passed / len(judged)
    low, high = wilson(rate * worth, worth)
    return {"rate": round(rate, DIGITS), "low": round(low, DIGITS), "high": round(high, DIGITS)}


def by_cluster(judged: Sequence[Trial]) -> tuple[list[float], list[int]]:
    """Return passes and trials by topic; by question where topics are too few."""
    topics = {one.topic for one in judged}
    groups: dict[str, list[Trial]] = {}
    for one in judged:
        name = one.topic if len(topics) >= FEWEST_CLUSTERS else one.question
        groups.setdefault(name, []).append(one)
    found = [groups[name] for name in sorted(groups)]
    sums = [float(sum(one.grade is Grade.PASS for one in group)) for group in found]
    return sums, [len(group) for group in found]


def _costs(mine: Sequence[Trial]) -> dict[str, float]:
    answers = [one.answer for one in mine if not one.answer.outage]
    if not answers:
        return {}
    each: dict[str, Callable[[Answer], float]] = {
        "tokens_in": lambda one: one.tokens_in,
        "tokens_out": lambda one: one.tokens_out,
        "seconds": lambda one: one.seconds,
        "tool_calls": lambda one: len(one.calls),
        "failed_calls": lambda one: sum(call.failed for call in one.calls),
        "recalled": lambda one: len(one.recalled),
    }
    # sorted: a sum of floats depends on its order
    return {
        name: round(sum(sorted(map(cost, answers))) / len(answers), 4)
        for name, cost in each.items()
    }
