"""The runner: order, resuming, outages, kills."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from lessons_loop.eval.question_set import EvalQuestion
from lessons_loop.eval.runs.folder import OtherRun, RunFolder, identity
from lessons_loop.eval.runs.runner import (
    OUTAGES_IN_A_ROW,
    RunStopped,
    TooManyUnjudged,
    run_trials,
    turns,
)
from lessons_loop.eval.trials import Answer, Arm, Grade, trial_seed
from lessons_loop.filter.errors import LessonsError
from support.evaluating_runs import (
    DOWN,
    Told,
    by_seed,
    graded,
    plan_of,
    run_slowly,
)
from support.processes import soon


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    found = RunFolder(tmp_path / "run")
    with found.held():
        found.begin({"seed": 7})
    return found


def test_each_trial_is_asked_once_with_its_seed(folder: RunFolder) -> None:
    agent, plan = Told(by_seed), plan_of(5, runs=3)
    trials = run_trials(plan, agent, graded, folder)
    assert len(trials) == plan.total == 30
    wanted = {
        (name, arm, trial_seed(7, name, arm, run))
        for name in (f"q{n}" for n in range(5))
        for arm in plan.arms
        for run in (1, 2, 3)
    }
    assert Counter(agent.asked) == Counter(wanted)


def test_arms_are_interleaved() -> None:
    order = list(turns(plan_of(40, runs=1)))
    for at in range(0, len(order), 2):
        assert order[at].question == order[at + 1].question
        assert {order[at].arm, order[at + 1].arm} == {Arm.OFF, Arm.ON}
    first = Counter(order[at].arm for at in range(0, len(order), 2))
    assert min(first.values()) >= 10


def test_order_follows_from_the_seed() -> None:
    assert list(turns(plan_of(9))) == list(turns(plan_of(9)))
    by_run = [[one.question.id for one in turns(plan_of(9)) if one.run == run] for run in (1, 2)]
    assert by_run[0] != by_run[1] and sorted(by_run[0]) == sorted(by_run[1])


def test_trials_are_graded_and_kept(folder: RunFolder) -> None:
    trials = run_trials(plan_of(), Told(lambda *_: "it is 42"), graded, folder, workers=1)
    assert {one.grade for one in trials} == {Grade.PASS}
    assert {one.graded_by for one in trials} == {"checks"}
    assert sorted(RunFolder(folder.path).trials(), key=identity) == sorted(trials, key=identity)


def test_second_start_asks_only_what_is_missing(folder: RunFolder) -> None:
    stopped = Told(lambda name, *_: "" if name == "q1" else "42")
    run_trials(plan_of(), stopped, graded, folder, max_unjudged=1.0)
    again = Told(lambda *_: "42")
    trials = run_trials(plan_of(), again, graded, folder)
    assert {name for name, *_ in again.asked} == {"q1"}
    assert len(trials) == 16 and {one.grade for one in trials} == {Grade.PASS}


def test_outage_is_no_failure(folder: RunFolder) -> None:  # T-37
    agent = Told(lambda name, *_: "" if name == "q1" else "42")
    trials = run_trials(plan_of(8), agent, graded, folder)
    lost = [one for one in trials if one.question == "q1"]
    assert {(one.grade, one.why) for one in lost} == {(Grade.UNJUDGED, DOWN)}
    assert {one.grade for one in trials if one.question != "q1"} == {Grade.PASS}


def test_agent_that_raises_is_an_outage(folder: RunFolder) -> None:
    def broken(name: str, arm: Arm, seed: int) -> str:
        if name == "q1":
            raise LessonsError("the tool server is gone")
        return "42"

    trials = run_trials(plan_of(8), Told(broken), graded, folder)
    assert {t.answer.outage for t in trials if t.question == "q1"} == {"the tool server is gone"}


def test_model_that_is_down_ends_the_run(folder: RunFolder) -> None:
    agent = Told(lambda *_: "")
    with pytest.raises(RunStopped, match=f"after {OUTAGES_IN_A_ROW} outages in a row.*refused"):
        run_trials(plan_of(200), agent, graded, folder, workers=2)
    assert len(folder.trials()) == OUTAGES_IN_A_ROW
    assert len(agent.asked) < 3 * OUTAGES_IN_A_ROW


def test_outages_now_and_then_do_not_end_it(folder: RunFolder) -> None:
    count = iter(range(10_000))
    agent = Told(lambda *_: "" if next(count) % OUTAGES_IN_A_ROW else "42")
    trials = run_trials(plan_of(20), agent, graded, folder, workers=1, max_unjudged=1.0)
    assert len(trials) == 80


def test_too_many_unjudged_are_an_error(folder: RunFolder) -> None:  # T-37
    agent = Told(lambda name, *_: "" if name in ("q1", "q2") else "42")
    with pytest.raises(TooManyUnjudged, match=r"8 of 24 answers are unjudged \(8 by an outage\)"):
        run_trials(plan_of(6), agent, graded, folder)
    assert len(folder.trials()) == 24


def test_share_that_is_borne_is_no_error(folder: RunFolder) -> None:
    agent = Told(lambda name, *_: "" if name == "q1" else "42")
    assert len(run_trials(plan_of(5), agent, graded, folder, max_unjudged=0.2)) == 20


def test_judge_in_trouble_is_unjudged_and_asked_later(folder: RunFolder) -> None:
    def no_judge(question: EvalQuestion, answer: Answer) -> tuple[Grade, str, str]:
        raise LessonsError("judge:\nno answer")

    agent = Told(by_seed)
    first = run_trials(plan_of(2), agent, no_judge, folder, max_unjudged=1.0)
    assert {(one.grade, one.why) for one in first} == {(Grade.UNJUDGED, "judge: no answer")}
    asked = len(agent.asked)
    again = run_trials(plan_of(2), agent, graded, folder)
    assert len(agent.asked) == asked  # answers are kept, only graded again
    assert Grade.UNJUDGED not in {one.grade for one in again}


def test_what_is_graded_again_is_graded_side_by_side(folder: RunFolder) -> None:
    """A judge that was down has left many answers: they do not wait for one another."""
    plan, met = plan_of(3, runs=1), threading.Barrier(3)

    def nobody(question: EvalQuestion, answer: Answer) -> tuple[Grade, str, str]:
        return Grade.UNJUDGED, "the judge is down", ""

    def together(question: EvalQuestion, answer: Answer) -> tuple[Grade, str, str]:
        met.wait(timeout=30)
        return Grade.PASS, "", "judge"

    run_trials(plan, Told(by_seed), nobody, folder, max_unjudged=1.0)
    found = run_trials(plan, Told(by_seed), together, folder, workers=3)
    assert {one.grade for one in found} == {Grade.PASS} and len(found) == 6


def test_bug_in_an_agent_is_loud(folder: RunFolder) -> None:
    def bug(name: str, arm: Arm, seed: int) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_trials(plan_of(), Told(bug), graded, folder)


@pytest.mark.parametrize("workers", [1, 3])
def test_so_many_are_asked_at_once(folder: RunFolder, workers: int) -> None:
    meeting = threading.Barrier(workers)

    def together(name: str, arm: Arm, seed: int) -> Answer:
        meeting.wait(20)
        return Answer(text="42")

    class Parallel(Told):
        def answer(self, question: EvalQuestion, arm: Arm, seed: int) -> Answer:
            return together(question.id, arm, seed)

    assert len(run_trials(plan_of(3), Parallel(by_seed), graded, folder, workers)) == 12


def test_arms_of_one_question_have_other_seeds(folder: RunFolder) -> None:
    plan = plan_of(3, (Arm.OFF, Arm.OFF_AGAIN))
    agent = Told(by_seed)
    run_trials(plan, agent, graded, folder)
    assert len({seed for *_, seed in agent.asked}) == plan.total


def test_torn_last_line_is_dropped(folder: RunFolder) -> None:
    wanted = run_trials(plan_of(), Told(by_seed), graded, folder)
    whole = folder.trials_file.read_bytes()
    folder.trials_file.write_bytes(whole[: len(whole) - 40])
    assert len(folder.trials()) == len(wanted) - 1
    agent = Told(by_seed)
    assert run_trials(plan_of(), agent, graded, folder) == wanted
    assert len(agent.asked) == 1


def test_line_that_is_no_trial_is_named(folder: RunFolder) -> None:
    folder.trials_file.write_text('{"question": 1}\n')
    with pytest.raises(OtherRun, match=r"trials\.jsonl line 1 is no trial"):
        folder.trials()


def lines_in(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0


def killed_at(root: Path, count: int, pause: float) -> int:
    """Run a plan in a child, kill it once so many trials are kept; return how many are then."""
    folder = RunFolder(root / "run")
    kept = len(folder.trials()) if folder.trials_file.exists() else 0
    words = ["-m", "support.stopping_runs", str(root), str(count - kept + 2)]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen([sys.executable, *words], env=env) as child:
        try:
            soon(lambda: lines_in(folder.trials_file) >= count, 120, pause=0.02)
            time.sleep(pause)
        finally:
            child.kill()
    return len(folder.trials())


def test_killed_run_ends_like_an_undisturbed_one(tmp_path: Path) -> None:
    calm, killed, chance = tmp_path / "calm", tmp_path / "killed", random.Random(3)
    for root in (calm, killed):
        root.mkdir()
    run_slowly(calm)
    kept = [killed_at(killed, count, chance.uniform(0, 0.03)) for count in (1, 13, 25, 37)]
    assert kept == sorted(set(kept)) and kept[0] >= 1 and kept[-1] < 48
    run_slowly(killed)
    one, other = (sorted(RunFolder(root / "run").trials(), key=identity) for root in (calm, killed))
    assert one == other and len(one) == 48
    lines = (killed / "run" / "trials.jsonl").read_bytes().splitlines()
    assert len(lines) == 48  # nothing graded was asked again


def test_two_programs_do_not_share_a_run(folder: RunFolder) -> None:
    with (
        folder.held(),
        pytest.raises(OtherRun, match="worked on by another"),
        RunFolder(folder.path).held(),
    ):
        pass
