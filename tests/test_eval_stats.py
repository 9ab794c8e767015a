"""Statistics of evaluation: published tables, symmetry, chance, missing grades."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessons_loop.deploy.bench.eval import covered_of, seen_of, undecided_of
from lessons_loop.eval.stats.arm_figures import arm_figures
from lessons_loop.eval.stats.compare import (
    cluster_bootstrap,
    compare,
    lift_of,
    mcnemar_exact,
    smallest_visible_lift,
    verdict_of,
    wilson,
)
from lessons_loop.eval.stats.intervals import effective_count, expanded_level, unseen
from lessons_loop.eval.stats.pairs import Effect, pairs_of
from lessons_loop.eval.trials import Arm, Trial
from support.grading import many, mirrored, trials_of

WORDS = ("helps", "harmful", "neutral", "underpowered")
marks = st.text("+-?", min_size=3, max_size=3)
questions = st.lists(
    st.tuples(st.integers(0, 8), marks, marks), min_size=1, max_size=25
).map(
    lambda rows: [
        trial
        for n, (topic, off, on) in enumerate(rows)
        for trial in trials_of(f"q{n}", f"t{topic}", off=off, on=on)
    ]
)  # fmt: skip


@pytest.mark.parametrize(
    ("passed", "judged", "low", "high"),
    [  # Newcombe 1998, Statistics in Medicine 17:857, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (29, 29, 0.8830, 1.0),
    ],
)
def test_wilson_is_the_published_one(passed: int, judged: int, low: float, high: float) -> None:
    assert wilson(passed, judged) == pytest.approx((low, high), abs=5e-5)


def test_nothing_judged_says_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("fixed", "broken", "p"),
    [
        # Fagerland, Lydersen and Laake 2013, BMC Medical Research Methodology 13:91
        (7, 1, 0.0703),
        (6, 16, 0.0525),
        (0, 0, 1.0),
        (5, 0, 2 / 2**5),  # closed: one of two tails of five coins
        (6, 0, 2 / 2**6),
        (3, 3, 1.0),
    ],
)
def test_mcnemar_is_the_published_one(fixed: int, broken: int, p: float) -> None:
    assert mcnemar_exact(fixed, broken) == pytest.approx(p, abs=5e-5)
    assert mcnemar_exact(broken, fixed) == mcnemar_exact(fixed, broken)


def test_expanded_percentiles_are_as_wide_as_students_t() -> None:
    """A normal population: the interval is mean +- t(0.975, n - 1) s / sqrt(n)."""
    values = random.Random(3).choices(range(-50, 51), k=40)
    mean, low, high = sum(values) / 40, *cluster_bootstrap(values, [1] * 40, seed=5)
    half = 2.0227 * (sum((one - mean) ** 2 for one in values) / 39 / 40) ** 0.5
    assert (low, high) == pytest.approx((mean - half, mean + half), abs=0.08 * half)


def test_level_is_expanded_for_few_clusters() -> None:
    assert expanded_level(14) == pytest.approx(0.9750, abs=5e-4)
    assert expanded_level(2000) == pytest.approx(0.95, abs=1e-3)


def test_clusters_weigh_by_their_questions() -> None:
    low, high = cluster_bootstrap([10.0, 10.0, 10.0, 0.0], [10, 10, 10, 10], seed=1)
    assert low == 0.0 and high == 1.0
    assert cluster_bootstrap([1.0, 2.0, 3.0], [2, 4, 6], seed=1) == (0.5, 0.5)


def test_same_topic_widens_the_interval() -> None:
    """Twelve questions of one kind are not twelve proofs."""
    alike = [
        t for n in range(36) for t in trials_of(f"q{n}", f"t{n // 4}", off="-", on="-+"[n < 16])
    ]
    apart = [one.model_copy(update={"topic": one.question}) for one in alike]
    (_, together), (_, single) = lift_of(pairs_of(alike)), lift_of(pairs_of(apart))
    assert together.high - together.low > 1.4 * (single.high - single.low)


@pytest.mark.parametrize(
    ("low", "high", "p", "net", "verdict"),
    [
        (0.01, 0.2, 0.04, 9, "helps"),
        (0.01, 0.2, 0.04, -9, "underpowered"),
        (0.01, 0.2, 0.05, 9, "underpowered"),
        (-0.3, -0.01, 0.001, -9, "harmful"),
        (-0.3, -0.01, 0.001, 9, "underpowered"),
        (-0.3, 0.0, 0.001, -9, "underpowered"),
        (-0.05, 0.05, 1.0, 0, "neutral"),
        (-0.051, 0.05, 1.0, 0, "underpowered"),
        (0.01, 0.04, 0.3, 1, "neutral"),
        (0.01, 0.04, 0.01, 9, "helps"),
    ],
)
def test_verdicts_are_as_defined(low: float, high: float, p: float, net: int, verdict: str) -> None:
    assert verdict_of(low, high, p, net, 0.05) == verdict


@pytest.mark.parametrize("flipped", [False, True])
def test_small_gains_hide_no_broken_questions(flipped: bool) -> None:  # T-38
    """60 questions pass a little more often and still fail, ten go over to failing."""
    trials = many(60, off="---", on="--+") + many(10, start=60, off="++-", on="+--")
    found = compare(mirrored(trials) if flipped else trials)
    assert abs(found.net) == 10 and found.p < 0.05 and found.low * found.high > 0
    assert found.verdict == "underpowered"


def test_lessons_that_mend_help() -> None:
    trials = many(20, off="---", on="+++") + many(40, start=20, off="+++", on="+++")
    found = compare(trials)
    assert (found.verdict, found.lift, found.net) == ("helps", 0.333333, 20)
    assert found.low > 0.15 and found.p < 1e-5 and found.passes_anyway == 40
    assert (found.questions, found.topics, found.runs, found.by_topic) == (60, 14, 3, True)


def test_mean_gain_hides_no_broken_question() -> None:  # T-38
    trials = many(30, off="---", on="+++") + many(3, start=30, off="+++", on="---")
    found = compare(trials)
    assert found.verdict == "helps" and found.broken == ("q30", "q31", "q32")


def test_equal_arms_of_many_questions_are_neutral() -> None:
    assert compare(many(60, off="+++", on="+++")).verdict == "neutral"


@pytest.mark.parametrize("count", [1, 3, 5, 20])
def test_few_questions_without_a_difference_prove_nothing(count: int) -> None:
    found = compare(many(count, off="+++", on="+++"))
    assert found.verdict == "underpowered" and found.high >= unseen(count) - 1e-6


@pytest.mark.parametrize("count", [1, 2, 5])
def test_no_handful_of_questions_helps_or_harms(count: int) -> None:
    assert compare(many(count, off="---", on="+++")).verdict == "underpowered"
    assert compare(many(count, off="+++", on="---")).verdict == "underpowered"


def test_no_trials_are_no_verdict() -> None:
    found = compare([])
    assert (found.verdict, found.low, found.high, found.p) == ("underpowered", -1.0, 1.0, 1.0)
    assert found.off.rate is None


def test_few_topics_are_told() -> None:
    assert compare(many(30, topics=5, off="---", on="+++")).by_topic is False
    assert compare(many(30, topics=6, off="---", on="+++")).by_topic is True


@pytest.mark.parametrize(
    ("off", "on", "effect", "consistent"),
    [
        ("---", "+++", Effect.FIXED, True),
        ("--+", "+++", Effect.FIXED, False),
        ("+++", "---", Effect.BROKEN, True),
        ("++-", "+--", Effect.BROKEN, False),
        ("+++", "++-", Effect.PASSES_ANYWAY, False),
        ("---", "---", Effect.FAILS_ANYWAY, True),
        ("+-", "++", Effect.UNDECIDED, False),
        ("?-?", "+??", Effect.FIXED, False),
    ],
)
def test_majority_of_runs_is_one_outcome(
    off: str, on: str, effect: Effect, consistent: bool
) -> None:
    (pair,) = pairs_of(trials_of("q", off=off, on=on))
    assert (pair.effect, pair.consistent) == (effect, consistent)


def test_unjudged_question_is_left_out_and_counted() -> None:
    trials = many(20, off="---", on="+++") + trials_of("gone", off="???", on="+++")
    found = compare(trials)
    assert (found.questions, found.left_out, found.unjudged) == (20, 1, 3)
    assert (found.off.judged, found.on.judged, found.lift) == (60, 63, 1.0)


def test_controls_are_no_part_of_the_lift() -> None:
    trials = many(20, off="+++", on="+++") + many(9, start=20, control=True, off="+++", on="---")
    assert compare(trials).broken == ()
    found = compare(trials, control=True)
    assert (found.questions, found.net, found.on.passed) == (9, -9, 0)


def test_runs_of_one_question_are_not_independent() -> None:
    """Ten runs of a question that always passes and one that never does are two questions."""
    figures = arm_figures(many(6, off="+" * 30) + many(6, start=6, off="-" * 30), Arm.OFF)
    low, high = wilson(6, 12)
    assert (figures.low, figures.high) == pytest.approx((low, high), abs=0.05)


@pytest.mark.parametrize(
    ("sums", "sizes", "questions", "worth"),
    [
        ([5, 5, 5, 5], [10, 10, 10, 10], 8, 40),
        ([10, 10, 0, 0], [10, 10, 10, 10], 8, 4),
        ([10, 10, 10], [10, 10, 10], 15, 15),
        ([0], [3], 1, 1),
    ],
)
def test_clustered_trials_are_worth_fewer(
    sums: list[float], sizes: list[int], questions: int, worth: float
) -> None:
    assert effective_count(sums, sizes, questions) == worth


@settings(max_examples=40, deadline=None)
@given(questions)
def test_changing_arms_over_mirrors_everything(trials: list[Trial]) -> None:
    one, other = compare(trials), compare(list(mirrored(trials)))
    assert other.lift == -one.lift and other.p == one.p and other.net == -one.net
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low), abs=2e-6)
    assert (other.off, other.on) == (one.on, one.off)
    assert (other.fixed, other.broken) == (one.broken, one.fixed)


@settings(max_examples=40, deadline=None)
@given(questions, st.randoms())
def test_order_of_trials_does_not_matter(trials: list[Trial], chance: random.Random) -> None:
    shuffled = list(trials)
    chance.shuffle(shuffled)
    assert compare(shuffled) == compare(trials)


@settings(max_examples=40, deadline=None)
@given(questions, st.integers(1, 5))
def test_unjudged_trials_change_no_rate(trials: list[Trial], count: int) -> None:
    more = [*trials, *trials_of("q0", trials[0].topic, off="?" * count)]
    one, other = compare(trials), compare(more)
    assert other.unjudged == one.unjudged + count
    assert (other.lift, other.low, other.high, other.p) == (one.lift, one.low, one.high, one.p)
    assert (other.off.rate, other.on.rate) == (one.off.rate, one.on.rate)


@settings(max_examples=40, deadline=None)
@given(questions)
def test_lift_lies_in_its_interval(trials: list[Trial]) -> None:
    found = compare(trials)
    assert -1 <= found.low <= found.lift <= found.high <= 1 and found.verdict in WORDS


@pytest.mark.parametrize("error_rate", [0.1, 0.3])
def test_chance_alone_gives_no_verdict(error_rate: float) -> None:
    assert undecided_of(40, error_rate) >= 93


def test_interval_holds_the_true_lift_as_often_as_it_says() -> None:
    assert covered_of(200, 0.2) >= 91


def test_lift_promised_to_be_seen_is_seen() -> None:
    promised = smallest_visible_lift(60, 14, 3)
    assert 0.1 < promised < 0.3
    assert 65 <= seen_of(60, promised) <= 95
    assert seen_of(40, 2 * promised) >= 95


def test_more_questions_see_smaller_lifts() -> None:
    lifts = [smallest_visible_lift(n, 14, 3) for n in (20, 60, 200)]
    assert lifts == sorted(lifts, reverse=True) and len({*lifts}) == 3


@pytest.mark.parametrize("plan", [(5, 5, 3), (1, 1, 1), (0, 0, 1), (5, 1, 9)])
def test_handful_of_questions_sees_nothing(plan: tuple[int, int, int]) -> None:
    assert smallest_visible_lift(*plan) == 1.0


def test_fewer_topics_see_less() -> None:
    assert smallest_visible_lift(60, 6, 3) > smallest_visible_lift(60, 14, 3)
