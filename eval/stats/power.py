"""The smallest lift a question set can see: known before a run, so that it is not wished for.

Simulated, with the very rule that gives the verdict. Assumed: pass rates of questions without
lessons are Beta (runs of one question correlate with 0.5); lessons make a share of the
questions pass always, and that share differs between topics (correlation 0.1).
Not covered: lessons that lift every question a little, which is harder to see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lessons_loop.eval.stats.intervals import FEWEST_CLUSTERS, expanded_level, unseen
from lessons_loop.eval.stats.verdict import ALPHA

if TYPE_CHECKING:
    import numpy as np

    Floats = np.ndarray[Any, np.dtype[np.float64]]

POWER = 0.8
WORLDS = 400
"""Simulated runs: the power at the lift found is known within 4 points."""
RESAMPLES = 999
SEED = 1
STEPS = 8
"""Halvings of the range: the lift is found within half a point."""
SPREAD = 1.0
"""Alpha + beta of a question's pass rate: 1 makes a correlation of 1 / (1 + 1)."""
TOPIC_SPREAD = 9.0
"""Alpha + beta of the share helped in a topic: a correlation of 1 / (9 + 1)."""
NEVER = 1.0
"""No lift can be seen."""


class Worlds(NamedTuple):
    """What chance gives each simulated run; the same for every lift tried."""

    rates: Floats
    """Pass rates without lessons, shape (worlds, questions)."""
    helped: Floats
    """Uniform numbers: below the topic's share, lessons help the question."""
    off: Floats
    """Share of passed runs without lessons."""
    on: Floats
    """Share of passed runs where lessons do nothing."""
    topic: np.ndarray[Any, np.dtype[np.int64]]
    """Topic of each question."""
    seed: int


def smallest_visible_lift(
    questions: int, topics: int, runs: int, base_rate: float = 0.5, power: float = POWER
) -> float:
    """Return the least true lift that ends as `helps` in 80 of 100 runs; 1.0: none does."""
    base = min(max(base_rate, 0.01), 0.99)
    if min(questions, topics, runs) < 1:
        return NEVER
    worlds = _worlds(questions, topics, runs, base)
    low, high = 0.0, 1 - base
    if power_at(worlds, base, high) < power:
        return NEVER
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if power_at(worlds, base, middle) >= power else (middle, high)
    return round(high, 3)


def _worlds(questions: int, topics: int, runs: int, base: float) -> Worlds:
    import numpy as np

    random = np.random.default_rng(SEED)
    shape = (WORLDS, questions)
    rates = random.beta(SPREAD * base, SPREAD * (1 - base), shape)
    off, on = random.binomial(runs, rates) / runs, random.binomial(runs, rates) / runs
    topic = np.arange(questions) % min(topics, questions)
    return Worlds(rates, random.random(shape), off, on, topic, SEED)


def power_at(worlds: Worlds, base: float, lift: float) -> float:
    """Return the share of simulated runs whose verdict is `helps` at a true lift."""
    import numpy as np
    from scipy.stats import binom

    on = np.where(worlds.helped < _shares(worlds, lift / (1 - base)), 1.0, worlds.on)
    fixed = ((worlds.off < 0.5) & (on > 0.5)).sum(axis=1)
    broken = ((worlds.off > 0.5) & (on < 0.5)).sum(axis=1)
    p = np.minimum(1.0, 2 * binom.cdf(np.minimum(fixed, broken), fixed + broken, 0.5))
    agreed = (p < ALPHA) & (fixed > broken)
    return float(np.mean(agreed & (_lows(on - worlds.off, worlds) > 0)))


def _shares(worlds: Worlds, helped: float) -> Floats:
    """Return the share of failures that lessons mend, drawn for each topic of each world."""
    import numpy as np
    from scipy.stats import beta

    topics = int(worlds.topic.max()) + 1
    drawn = np.random.default_rng(worlds.seed + 1).random((WORLDS, topics))
    helped = min(max(helped, 1e-6), 1.0)
    if helped >= 1.0:
        return np.ones((WORLDS, len(worlds.topic)))
    shares = beta.ppf(drawn, TOPIC_SPREAD * helped, TOPIC_SPREAD * (1 - helped))
    return np.asarray(shares[:, worlds.topic], float)


def _lows(differences: Floats, worlds: Worlds) -> Floats:
    """Return the lower bound of each world's lift, as `lift_of` makes it."""
    import numpy as np

    count, topic = len(worlds.topic), worlds.topic
    if int(topic.max()) + 1 < FEWEST_CLUSTERS:
        topic = np.arange(count)
    clusters = int(topic.max()) + 1
    lifts = differences.mean(axis=1)
    if clusters < 2:
        return np.full(len(differences), -1.0)
    one_hot = np.eye(clusters)[topic]
    random = np.random.default_rng(worlds.seed + 2)
    weights = random.multinomial(clusters, np.full(clusters, 1 / clusters), RESAMPLES)
    drawn = (differences @ one_hot @ weights.T) / (weights @ one_hot.sum(axis=0))
    bounds = np.quantile(drawn, (1 - expanded_level(clusters)) / 2, axis=1)
    return np.asarray(np.minimum(bounds, lifts - unseen(count)), float)
