"""Figures of evaluation: what chance alone makes of two equal arms, coverage, and power.

Made trials, no model: 60 questions of 14 topics, 3 runs, graded by chance with known rates.
So these figures prove the statistics, not the benefit of any lesson.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lessons_loop.deploy.bench.figures import Figure, single
from lessons_loop.eval.stats.compare import compare, lift_of, smallest_visible_lift
from lessons_loop.eval.stats.pairs import pairs_of
from lessons_loop.eval.trials import Answer, Arm, Grade, Trial

QUESTIONS, TOPICS, RUNS = 60, 14, 3
ERROR_RATES = (0.1, 0.2, 0.3)
HARD = 0.4
"""Share of the questions that fail without lessons, but for chance."""
TOPIC_SPREAD = 9.0
"""Alpha + beta of the share helped in a topic: a correlation of 0.1, as in `power`."""


class World(NamedTuple):
    """What is true of made trials."""

    off: np.ndarray[tuple[int], np.dtype[np.float64]]
    """Chance of each question to pass without lessons."""
    on: np.ndarray[tuple[int], np.dtype[np.float64]]
    topic: np.ndarray[tuple[int], np.dtype[np.int64]]


def equal_arms(chance: np.random.Generator, error_rate: float) -> World:
    """Return two arms alike: a part of the questions is hard, and errors hit either kind."""
    hard = chance.random(QUESTIONS) < HARD
    rates = np.where(hard, error_rate / 2, 1 - error_rate)
    return World(rates, rates, np.arange(QUESTIONS) % TOPICS)


def helpful_arm(chance: np.random.Generator, lift: float, base: float = 0.5) -> World:
    """Return an arm with a true lift: in each topic some questions are mended for good."""
    rates = chance.beta(base, 1 - base, QUESTIONS)
    share = min(lift / (1 - base), 1.0)
    shares = chance.beta(TOPIC_SPREAD * share, TOPIC_SPREAD * (1 - share), TOPICS)
    topic = np.arange(QUESTIONS) % TOPICS
    helped = chance.random(QUESTIONS) < shares[topic]
    return World(rates, np.where(helped, 1.0, rates), topic)


def made_trials(chance: np.random.Generator, world: World, on: Arm = Arm.ON) -> list[Trial]:
    """Return graded trials of a world."""
    return list(_asked(chance, world, on))


def _asked(chance: np.random.Generator, world: World, on: Arm) -> Iterator[Trial]:
    for arm, rates in ((Arm.OFF, world.off), (on, world.on)):
        passed = chance.random((RUNS, QUESTIONS)) < rates
        for run, question in np.ndindex(RUNS, QUESTIONS):
            yield Trial(
                question=f"question-{question}",
                topic=f"topic-{world.topic[question]}",
                arm=arm,
                run=run + 1,
                answer=Answer(),
                grade=Grade.PASS if passed[run, question] else Grade.FAIL,
            )


def undecided_of(repetitions: int, error_rate: float) -> float:
    """Return how many of 100 comparisons of equal arms find neither help nor harm."""
    verdicts = []
    for seed in range(repetitions):
        chance = np.random.default_rng([seed, round(error_rate * 100)])
        trials = made_trials(chance, equal_arms(chance, error_rate), Arm.OFF_AGAIN)
        verdicts.append(compare(trials, Arm.OFF_AGAIN, Arm.OFF, seed=seed).verdict)
    return 100 * sum(one in ("neutral", "underpowered") for one in verdicts) / repetitions


def covered_of(repetitions: int, lift: float) -> float:
    """Return how many of 100 intervals hold the true lift."""
    held = 0
    for seed in range(repetitions):
        chance = np.random.default_rng([seed, 1000])
        pairs = pairs_of(made_trials(chance, helpful_arm(chance, lift)))
        _, (low, high) = lift_of(pairs, seed)
        held += low <= lift <= high
    return 100 * held / repetitions


def seen_of(repetitions: int, lift: float) -> float:
    """Return how many of 100 runs call a true lift `helps`."""
    verdicts = []
    for seed in range(repetitions):
        chance = np.random.default_rng([seed, 2000])
        verdicts.append(compare(made_trials(chance, helpful_arm(chance, lift)), seed=seed).verdict)
    return 100 * verdicts.count("helps") / repetitions


def eval_figures(repetitions: int = 100, intervals: int = 1000) -> list[Figure]:
    """Return the figures; each line's runs are its repetitions."""
    lift = smallest_visible_lift(QUESTIONS, TOPICS, RUNS)
    figures = [
        _one(f"A/A, errors {rate:.0%}: neither", undecided_of(repetitions, rate),
             repetitions, ">= 93 of 100")
        for rate in ERROR_RATES
    ]  # fmt: skip
    return [
        *figures,
        _one("95 % interval holds the lift", covered_of(intervals, 0.2), intervals, ">= 93 of 100"),
        _one("smallest visible lift, points", 100 * lift, 1, "60 questions, 14 topics, 3 runs"),
        _one("  seen as helps when it is true", seen_of(repetitions, lift), repetitions, "80"),
    ]


def _one(name: str, value: float, runs: int, limit: str) -> Figure:
    return single(name, value, limit, "", runs)
