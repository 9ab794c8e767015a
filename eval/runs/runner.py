"""Ask an agent every question in every arm, several times, and grade what it says.

Arms are interleaved, so that drift of a model or a machine meets all of them alike.

Covered: outages (asked again by the next start; ten in a row end the run), kills, Ctrl-C: what
is graded stays. Not covered: a model that answers nonsense for a while: that is FAIL.
"""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from lessons_loop.eval.question_set import EvalQuestion, QuestionSet
from lessons_loop.eval.runs.folder import Identity, RunFolder, identity
from lessons_loop.eval.runs.setup import Grader
from lessons_loop.eval.trials import Agent, Answer, Arm, Grade, Trial, trial_seed
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.text import shorten

OUTAGES_IN_A_ROW = 10
MAX_UNJUDGED = 0.2
Progress = Callable[[int, int, Trial], None]
"""Called after each trial: done, total, the trial."""


class RunStopped(LessonsError):
    """The run ended before its end; what was graded is kept."""


class TooManyUnjudged(LessonsError):
    """The run is complete, and too few of its answers are graded to tell anything."""


@dataclass(frozen=True)
class RunPlan:
    """What is asked, how often."""

    questions: QuestionSet
    arms: tuple[Arm, ...]
    runs: int
    base_seed: int = 7

    @property
    def total(self) -> int:
        """How many trials that is."""
        return len(self.questions.questions) * len(self.arms) * self.runs


class Turn(NamedTuple):
    """One trial that is due."""

    question: EvalQuestion
    arm: Arm
    run: int

    @property
    def identity(self) -> Identity:
        """Which trial it is."""
        return self.question.id, self.arm, self.run


def turns(plan: RunPlan) -> Iterator[Turn]:
    """Yield all trials: run by run, questions shuffled, each one's arms side by side, shuffled."""
    for run in range(1, plan.runs + 1):
        chance = random.Random(f"{plan.base_seed}|{run}")
        for question in chance.sample(plan.questions.questions, len(plan.questions.questions)):
            for arm in chance.sample(plan.arms, len(plan.arms)):
                yield Turn(question, arm, run)


def nothing_shown(done: int, total: int, trial: Trial) -> None:
    """Show no progress."""


def run_trials(
    plan: RunPlan,
    agent: Agent,
    grader: Grader,
    folder: RunFolder,
    workers: int = 4,
    progress: Progress = nothing_shown,
    max_unjudged: float = MAX_UNJUDGED,
) -> list[Trial]:
    """Return all trials of a plan in its order, asking what the folder does not hold yet.

    An outage it holds is asked again, an answer without a grade is graded again. The caller
    holds the folder. Raises RunStopped, TooManyUnjudged, StoreError.
    """
    folder.drop_torn_line()
    due = list(turns(plan))
    wanted = {turn.identity for turn in due}
    known = {identity(one): one for one in folder.trials() if identity(one) in wanted}
    done = {name: one for name, one in known.items() if not one.answer.outage}
    with closing(_regraded(due, done, grader, workers)) as again:
        for trial in again:
            folder.append(trial)
            done[identity(trial)] = trial
    open_turns = [turn for turn in due if turn.identity not in done]

    def one(turn: Turn) -> Trial:
        return _one(turn, agent, grader, plan.base_seed)

    with closing(_made(open_turns, one, workers)) as asked:
        for trial in asked:
            folder.append(trial)
            done[identity(trial)] = trial
            progress(len(done), plan.total, trial)
    found = [done[turn.identity] for turn in due]
    require_judged(found, max_unjudged)
    return found


def _regraded(
    due: Sequence[Turn], done: Mapping[Identity, Trial], grader: Grader, workers: int
) -> Generator[Trial, None, None]:
    """Yield the trials whose answer got no grade, where it gets one now."""
    answers = {name: one.answer for name, one in done.items() if one.grade is Grade.UNJUDGED}

    def again(turn: Turn) -> Trial:
        return graded(turn, answers[turn.identity], grader)

    left = [turn for turn in due if turn.identity in answers]
    with closing(_made(left, again, workers)) as made:
        yield from (trial for trial in made if trial.grade is not Grade.UNJUDGED)


def graded(turn: Turn, answer: Answer, grader: Grader) -> Trial:
    """Return the trial an answer makes; trouble with the judge is UNJUDGED, never a failure."""
    if answer.outage:
        grade, why, by = Grade.UNJUDGED, answer.outage, ""
    else:
        try:
            grade, why, by = grader(turn.question, answer)
        except LessonsError as error:
            grade, why, by = Grade.UNJUDGED, str(error), ""
    return Trial(
        question=turn.question.id,
        topic=turn.question.topic,
        control=turn.question.control,
        arm=turn.arm,
        run=turn.run,
        answer=answer,
        grade=grade,
        why=" ".join(why.split()),
        graded_by=by,
    )


def _made(
    due: Sequence[Turn], one: Callable[[Turn], Trial], workers: int
) -> Generator[Trial, None, None]:
    """Yield the trials as they end; raise RunStopped after too many outages in a row.

    The threads are daemons: whoever interrupts does not wait for a model's time limit. They
    are at most one answer each ahead of what is kept.
    """
    waiting, taking = iter(due), threading.Lock()
    ended: queue.SimpleQueue[Trial | BaseException] = queue.SimpleQueue()
    room, stopping = threading.Semaphore(2 * workers), threading.Event()

    def work() -> None:
        while room.acquire() and not stopping.is_set():
            with taking:
                turn = next(waiting, None)
            if turn is None:
                return
            try:
                ended.put(one(turn))
            except BaseException as error:
                ended.put(error)
                return

    for _ in range(workers):
        threading.Thread(target=work, daemon=True).start()
    try:
        for trial in _until_down(ended.get() for _ in due):
            yield trial
            room.release()
    finally:
        stopping.set()
        room.release(workers)


def _one(turn: Turn, agent: Agent, grader: Grader, base_seed: int) -> Trial:
    seed = trial_seed(base_seed, turn.question.id, turn.arm, turn.run)
    try:
        answer = agent.answer(turn.question, turn.arm, seed)
    except LessonsError as error:
        answer = Answer(outage=str(error))
    return graded(turn, answer, grader)


def _until_down(ended: Iterable[Trial | BaseException]) -> Iterator[Trial]:
    row = 0
    for one in ended:
        if isinstance(one, BaseException):
            raise one
        yield one
        row = row + 1 if one.answer.outage else 0
        if row == OUTAGES_IN_A_ROW:
            raise RunStopped(
                f"stopped after {row} outages in a row ({shorten(one.answer.outage, 120)})"
            )


def share_unjudged(trials: Sequence[Trial]) -> float:
    """Return the share of trials without a grade, 0 of none."""
    unjudged = sum(one.grade is Grade.UNJUDGED for one in trials)
    return unjudged / len(trials) if trials else 0.0


def require_judged(trials: Sequence[Trial], max_unjudged: float) -> None:
    """Raise TooManyUnjudged where more than this share got no grade."""
    if share_unjudged(trials) > max_unjudged:
        unjudged = sum(one.grade is Grade.UNJUDGED for one in trials)
        outages = sum(bool(one.answer.outage) for one in trials)
        raise TooManyUnjudged(
            f"{unjudged} of {len(trials)} answers are unjudged ({outages} by an outage), at most "
            f"{max_unjudged * 100:g} % may be (--max-unjudged): no verdict"
        )
