"""Does one arm beat another: lift with its interval, exact p, flips, and one of four verdicts.

One comparison is primary: on against off. Lift is the mean over questions of the difference
in pass rate; its interval resamples topics, because questions of one topic are not
independent; p is McNemar's over one outcome a question.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import Field

from lessons_loop.eval.stats.arm_figures import DIGITS, ArmFigures, arm_figures
from lessons_loop.eval.stats.intervals import (
    FEWEST_CLUSTERS,
    Interval,
    cluster_bootstrap,
    mcnemar_exact,
    unseen,
    wilson,
)
from lessons_loop.eval.stats.pairs import Effect, Pair, pairs_of, questions_asked, with_effect
from lessons_loop.eval.stats.power import smallest_visible_lift
from lessons_loop.eval.stats.verdict import MARGIN, verdict_of
from lessons_loop.eval.trials import Arm, Trial
from lessons_loop.filter.models import FrozenModel

__all__ = [
    "ArmFigures",
    "Comparison",
    "arm_figures",
    "cluster_bootstrap",
    "compare",
    "lift_of",
    "mcnemar_exact",
    "pairs_of",
    "smallest_visible_lift",
    "verdict_of",
    "wilson",
]


class Comparison(FrozenModel):
    """One arm against another."""

    off_arm: Arm
    on_arm: Arm
    questions: int
    """Questions judged in both arms; the others are in `left_out`."""
    runs: int
    """Most runs of any question."""
    topics: int
    off: ArmFigures
    on: ArmFigures
    lift: float
    """Mean over questions of the difference in pass rate, -1 to 1."""
    low: float
    high: float
    """95 % interval of the lift."""
    p: Annotated[float, Field(ge=0, le=1)]
    fixed: tuple[str, ...]
    broken: tuple[str, ...]
    net: int
    """Fixed less broken."""
    verdict: Annotated[str, Field(pattern="^(helps|harmful|neutral|underpowered)$")]
    margin: float
    unjudged: int
    """Trials of both arms without a grade."""
    left_out: int = 0
    """Questions without a grade in one of the arms."""
    passes_anyway: int = 0
    """Questions that pass without lessons too."""
    by_topic: bool = True
    """The interval resamples topics; with fewer than six it resamples questions."""

    @property
    def unchanged(self) -> int:
        """Return how many questions did not flip."""
        return self.questions - len(self.fixed) - len(self.broken)


def compare(
    trials: Sequence[Trial],
    on: Arm = Arm.ON,
    off: Arm = Arm.OFF,
    margin: float = MARGIN,
    seed: int = 0,
    *,
    control: bool = False,
) -> Comparison:
    """Compare two arms on the questions proper, or on the controls alone."""
    pairs = pairs_of(trials, on, off, control=control)
    figures = [arm_figures(trials, arm, control=control) for arm in (off, on)]
    fixed, broken = with_effect(pairs, Effect.FIXED), with_effect(pairs, Effect.BROKEN)
    p, net = mcnemar_exact(len(fixed), len(broken)), len(fixed) - len(broken)
    lift, (low, high) = lift_of(pairs, seed)
    asked = questions_asked(trials, (on, off), control=control)
    topics = {pair.topic for pair in pairs}
    return Comparison(
        off_arm=off,
        on_arm=on,
        questions=len(pairs),
        runs=most_runs(pairs),
        topics=len(topics),
        off=figures[0],
        on=figures[1],
        lift=lift,
        low=low,
        high=high,
        p=round(p, 2 * DIGITS),
        fixed=fixed,
        broken=broken,
        net=net,
        verdict=verdict_of(low, high, p, net, margin),
        margin=margin,
        unjudged=figures[0].unjudged + figures[1].unjudged,
        left_out=len(asked) - len(pairs),
        passes_anyway=len(with_effect(pairs, Effect.PASSES_ANYWAY)),
        by_topic=len(topics) >= FEWEST_CLUSTERS,
    )


def most_runs(pairs: Iterable[Pair]) -> int:
    """Return the most graded runs any question has in an arm."""
    return max((max(pair.off_judged, pair.on_judged) for pair in pairs), default=0)


def lift_of(pairs: Sequence[Pair], seed: int = 0) -> tuple[float, Interval]:
    """Return the lift and its 95 % interval, never narrower than what no question shows."""
    if not pairs:
        return 0.0, Interval(-1.0, 1.0)
    lift = sum(pair.difference for pair in pairs) / len(pairs)
    sums, sizes = _clusters(pairs)
    low, high = cluster_bootstrap(sums, sizes, seed=seed)
    least = unseen(len(pairs))
    low, high = max(-1.0, min(low, lift - least)), min(1.0, max(high, lift + least))
    return round(lift, DIGITS), Interval(round(low, DIGITS), round(high, DIGITS))


def _clusters(pairs: Sequence[Pair]) -> tuple[list[float], list[int]]:
    by_topic = len({pair.topic for pair in pairs}) >= FEWEST_CLUSTERS
    groups: dict[str, list[float]] = {}
    for pair in pairs:
        groups.setdefault(pair.topic if by_topic else pair.question, []).append(pair.difference)
    found = [groups[name] for name in sorted(groups)]
    return [sum(group) for group in found], [len(group) for group in found]
