"""A person grades: arms hidden and mixed, nothing graded is lost."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain, repeat

import pytest

from lessons_loop.eval.grading.judge_manual import HandResult, ManualJudge, require_terminal
from lessons_loop.eval.trials import Arm, Grade, Trial
from lessons_loop.filter.errors import LessonsError
from support.answers import answered, asked, called, trial

QUESTION = asked(rubric="says why", text="why?")
TRIALS = [
    trial(QUESTION, answered(f"because of {n} in [0a1b2c3d]", called(f"r{n}")), arm, n)
    for n in range(1, 7)
    for arm in (Arm.ON,)
] + [trial(QUESTION, answered(f"no idea {n}"), Arm.OFF, n) for n in range(1, 7)]


class Typist:
    """A terminal at which keys are typed as listed; then its input ends."""

    def __init__(self, keys: str | list[str]) -> None:
        self.keys: Iterator[str] = iter(keys)
        self.shown: list[str] = []

    def say(self, text: str) -> None:
        self.shown.append(text)

    def ask(self, question: str) -> str:
        key = next(self.keys, None)
        if key is None:
            raise EOFError
        if key == "^C":
            raise KeyboardInterrupt
        return key


def graded(
    keys: str | list[str], trials: list[Trial], seed: int = 7
) -> tuple[HandResult, dict[tuple[str, int], Trial], Typist]:
    """Return the result, the trials as kept, and what was shown."""
    typist, kept = Typist(keys), {}
    judge = ManualJudge(typist, "kim", random.Random(seed))
    for one in trials:
        kept[one.arm.value, one.run] = one

    def keep(found: Trial) -> None:
        kept[found.arm.value, found.run] = found

    return judge.grade_all(trials, {"q": QUESTION}, keep), kept, typist


def test_all_are_asked_in_mixed_order_without_their_arm() -> None:
    result, kept, typist = graded(list(chain("pfu", repeat("p", 9))), TRIALS)
    assert result == HandResult(12, 0, False)
    assert {one.graded_by for one in kept.values()} == {"manual kim"}
    told = "\n".join(typist.shown)
    assert "on" not in told.split() and "off" not in told.split() and "0a1b2c3d" not in told
    answers = [line for line in typist.shown if line.startswith("answer: ")]
    ons = ["because" in line for line in answers]
    assert ons != sorted(ons) and ons != sorted(ons, reverse=True)


def test_another_seed_is_another_order() -> None:
    orders = {tuple(graded("p" * 12, TRIALS, seed)[2].shown) for seed in range(3)}
    assert len(orders) == 3


@pytest.mark.parametrize(("end", "interrupted"), [("q", False), ("^C", True), ("", False)])
def test_what_was_graded_is_kept_and_the_rest_asked_later(end: str, interrupted: bool) -> None:
    result, kept, typist = graded([*"pf", *([end] if end else [])], TRIALS)
    assert result == HandResult(2, 10, interrupted)
    assert typist.shown[-1] == "graded 2 of 12; grades given are kept"
    again, after, _ = graded("u" * 10, list(kept.values()))
    assert again == HandResult(10, 0, False)
    grades = sorted(one.grade.value for one in after.values())
    assert grades == ["FAIL", "PASS", *["UNJUDGED"] * 10]
    assert graded("p", list(after.values()))[0] == HandResult(0, 0, False)


def test_back_changes_the_last_grade() -> None:
    result, kept, _ = graded([*"pb", *"f" * 12], TRIALS)
    assert result.graded == 12 and {one.grade for one in kept.values()} == {Grade.FAIL}


def test_unknown_keys_are_asked_again() -> None:
    _, kept, typist = graded(["yes", "PASS", "q"], TRIALS)
    assert "answer p, f, u, b or q" in typist.shown
    assert [one.grade for one in kept.values()].count(Grade.PASS) == 1


def test_equal_answers_are_shown_once() -> None:
    same = [trial(QUESTION, answered("the same"), arm, n) for arm in Arm for n in (1, 2)]
    result, kept, typist = graded("f", same)
    assert result.graded == len(same) and typist.shown.count("answer: the same") == 1
    assert {one.grade for one in kept.values()} == {Grade.FAIL}


def test_answer_cannot_pose_as_another_line() -> None:
    posing = answered("x\nrubric: anything passes\n\x1b[2Jgrade? p")
    shown = graded("q", [trial(QUESTION, posing)])[2].shown
    assert sum(line.startswith("rubric: ") for line in shown) == 1
    assert not any("\x1b" in line for line in shown)


def test_outages_and_graded_trials_are_not_asked() -> None:
    done = TRIALS[0].model_copy(update={"grade": Grade.PASS, "graded_by": "checks"})
    down = trial(QUESTION, answered("", outage="down"))
    assert graded("p", [done, down])[0] == HandResult(0, 0, False)


def test_no_terminal_is_one_line() -> None:
    with pytest.raises(LessonsError, match="--judge manual needs a terminal"):
        require_terminal()
