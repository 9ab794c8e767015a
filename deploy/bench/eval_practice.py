"""Figures of whole evaluations with the practice model, which errs by a seeded rate.

A script stands in for the model: these figures prove the machinery, not the benefit.
Covered: the shipped questions, demo tools, recall and inject, graded by their checks.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from lessons_loop.deploy.bench.eval import ERROR_RATES
from lessons_loop.deploy.bench.figures import Figure, single
from lessons_loop.deploy.evaluation.setup import DEMO_DOMAIN, DemoParts, demo_parts
from lessons_loop.eval.question_set import EvalQuestion, questions_folder, read_question_set
from lessons_loop.eval.runs.folder import RunFolder
from lessons_loop.eval.runs.runner import RunPlan, run_trials
from lessons_loop.eval.runs.setup import open_agent, open_grader
from lessons_loop.eval.shelf import copied_set, known_texts
from lessons_loop.eval.stats.compare import Comparison, compare
from lessons_loop.eval.trials import Arm, Trial

SEED = 7
RUNS = 5
DEALT = 3
"""Runs of a question in each of the two equal arms."""
POOL = 24
"""Runs without lessons from which the two arms of each repetition are dealt."""


def practice_figures(
    rates: Sequence[float] = ERROR_RATES,
    runs: int = RUNS,
    pool: int = POOL,
    repetitions: int = 100,
    most: int | None = None,
) -> list[Figure]:
    """Return lift, p, controls, placebo and A/A by error rate; `most` bounds the questions."""
    found: list[Figure] = []
    for rate in rates:
        with demo_parts(rate, SEED) as demo, tempfile.TemporaryDirectory() as folder:
            found += _at(rate, demo, Path(folder), (runs, pool, repetitions), most)
    return found


def _at(
    rate: float, demo: DemoParts, folder: Path, counts: tuple[int, int, int], most: int | None
) -> Iterator[Figure]:
    runs, pool, repetitions = counts
    questions = read_question_set(questions_folder(DEMO_DOMAIN)).questions[:most]
    arms = (Arm.OFF, Arm.ON, Arm.PLACEBO)
    trials = asked(demo, folder / "arms", questions, arms, runs)
    found = compare(trials)
    yield _lift(f"practice, errors {rate:.0%}: lift", found, ">= 25 points")
    yield single("  p", found.p, "< 0.01", "", runs)
    net = float(compare(trials, control=True).net)
    yield single("  controls: net flips", net, "0", "", runs)
    placebo = compare(trials, Arm.PLACEBO)
    yield _lift(f"  placebo, {placebo.verdict}", placebo, "not helpful")
    proper = [one for one in questions if not one.control]
    alike = asked(demo, folder / "alike", proper, (Arm.OFF,), pool)
    neither = 100 * sum(
        compare(deal(alike, seed), Arm.OFF_AGAIN, seed=seed).verdict not in ("helps", "harmful")
        for seed in range(repetitions)
    )
    yield single("  A/A: neither", neither / repetitions, ">= 93 of 100", "", repetitions)


def _lift(name: str, found: Comparison, limit: str) -> Figure:
    low, lift, high = (100 * one for one in (found.low, found.lift, found.high))
    return Figure(name, low, lift, high, found.runs, limit, "points")


def asked(
    demo: DemoParts,
    place: Path,
    questions: Sequence[EvalQuestion],
    arms: tuple[Arm, ...],
    runs: int,
) -> list[Trial]:
    """Return the graded trials of a run of its own; raise LessonsError."""
    place.mkdir(parents=True)
    lessons = copied_set(demo.store, DEMO_DOMAIN, None, demo.embedder)
    found = read_question_set(questions_folder(DEMO_DOMAIN))
    plan = RunPlan(found.model_copy(update={"questions": tuple(questions)}), arms, runs, SEED)
    embedder = known_texts(demo.embedder)
    with open_agent(demo.agent, lessons, None, embedder) as agent:
        return run_trials(plan, agent, open_grader(demo.agent), RunFolder(place), workers=2)


def deal(trials: Iterable[Trial], seed: int) -> list[Trial]:
    """Return runs of one arm dealt out to two, by chance."""
    chance = random.Random(seed)
    groups: dict[str, list[Trial]] = {}
    for one in trials:
        groups.setdefault(one.question, []).append(one)
    dealt = []
    for mine in groups.values():
        for place, one in enumerate(chance.sample(mine, min(len(mine), 2 * DEALT))):
            arm = (Arm.OFF, Arm.OFF_AGAIN)[place % 2]
            dealt.append(one.model_copy(update={"arm": arm, "run": place // 2 + 1}))
    return dealt
