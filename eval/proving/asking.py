"""Ask questions with one set of lessons, in memory: what proofs are made of.

Each set of lessons stands under an arm's name; every request says `on` to the agent, so that
sets differ by their lessons and seeds alone. No request or reply is kept.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from lessons_loop.eval.question_set import EvalQuestion, QuestionSet
from lessons_loop.eval.runs.folder import RunFolder, identity
from lessons_loop.eval.runs.progress_line import ProgressLine
from lessons_loop.eval.runs.runner import MAX_UNJUDGED, RunPlan, nothing_shown, run_trials
from lessons_loop.eval.runs.setup import Grader
from lessons_loop.eval.shelf import Shelf
from lessons_loop.eval.trials import Agent, Answer, Arm, Grade, Trial
from lessons_loop.filter.embed import Embedder
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.inject import block
from lessons_loop.filter.text import scrub, shorten
from lessons_loop.promote.masking import mask_through
from lessons_loop.promote.proof.proving import LessonSet

ECHO = 3
"""Words in a row that make a quotation."""
WORD = re.compile(r"\w+")
MODEL_LIMIT = 80
"""Of the name a server gives itself: it becomes a part of the lesson's row."""
TOLD = 50
"""Answers from which progress is told where nobody watches."""
Opener = Callable[[LessonSet, Embedder | None], AbstractContextManager[Agent]]
"""Gives an agent that recalls from these lessons; raises LessonsError."""


@dataclass(frozen=True)
class Asking:
    """Whom to ask, how often, and who grades."""

    questions: QuestionSet
    opened: Opener
    grader: Grader
    model: str = ""
    """The agent's model, for people and the record."""
    practice: bool = False
    """Whether a script stands in for it."""
    runs: int = 3
    seed: int = 7
    workers: int = 4
    max_unjudged: float = MAX_UNJUDGED

    def some(self, ids: Iterable[str]) -> QuestionSet:
        """Return the questions of these ids."""
        wanted = set(ids)
        chosen = tuple(one for one in self.questions.questions if one.id in wanted)
        return self.questions.model_copy(update={"questions": chosen})


class KeptTrials(RunFolder):
    """Trials in memory; a run goes on from those it is given."""

    def __init__(self, known: Iterable[Trial] = ()) -> None:
        super().__init__(Path())
        self.found = {identity(one): one for one in known}

    def trials(self) -> list[Trial]:
        """Return what there is."""
        return list(self.found.values())

    def append(self, trial: Trial) -> None:
        """Add a trial."""
        self.found[identity(trial)] = trial

    def drop_torn_line(self) -> None:
        """Memory is never torn."""


class _Under:
    """An agent whose trials stand under another arm's name."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.name = agent.name

    def answer(self, question: EvalQuestion, arm: Arm, seed: int) -> Answer:
        try:
            found = self.agent.answer(question, Arm.ON, seed)
        except LessonsError as error:
            found = Answer(outage=str(error))
        return found.model_copy(update={"outage": without_question(found.outage, question)})


def without_question(told: str, question: EvalQuestion) -> str:
    """Return what a server said up to where it repeats the question: it is kept and posted on."""
    asked = WORD.findall(
        " ".join(str(message["content"]) for message in question.messages).casefold()
    )
    size = min(ECHO, len(asked))
    runs = {tuple(asked[at : at + size]) for at in range(len(asked) - size + 1)} - {()}
    said = list(WORD.finditer(told))
    words = [one.group().casefold() for one in said]
    found = (at for at in range(len(said)) if tuple(words[at : at + size]) in runs)
    first = next(found, None)
    return told if first is None else f"{told[: said[first].start()]}…"


def ask(
    asking: Asking,
    agent: Agent,
    arm: Arm,
    questions: QuestionSet,
    kept: KeptTrials | None = None,
    *,
    runs: int = 0,
    seed: int | None = None,
) -> list[Trial]:
    """Return the trials of some questions under `arm`; raise RunStopped, TooManyUnjudged."""
    base = asking.seed if seed is None else seed
    plan = RunPlan(questions, (arm,), runs or asking.runs, base)
    line = ProgressLine(sys.stderr, len(kept.found) if kept else 0)
    told = sys.stderr.isatty() or plan.total >= TOLD  # a log needs no line for every five answers
    try:
        return run_trials(
            plan,
            _Under(agent),
            asking.grader,
            kept or KeptTrials(),
            asking.workers,
            line if told else nothing_shown,
            asking.max_unjudged,
        )
    finally:
        line.end()


def blocks(shelf: Shelf, questions: Sequence[EvalQuestion]) -> dict[str, str]:
    """Return what recall puts into each question's request, by id; empty: nothing."""
    found = ((one.id, shelf.recalled(one.messages)) for one in questions)
    return {name: block(lessons) if lessons else "" for name, lessons in found}


def bare(trial: Trial) -> Trial:
    """Return a trial without what was said: its grade is all a proof needs."""
    return trial.model_copy(update={"answer": Answer(model=trial.answer.model), "why": ""})


def graded_only(trials: Iterable[Trial]) -> list[Trial]:
    """Return the trials that have a grade."""
    return [one for one in trials if one.grade is not Grade.UNJUDGED]


def models_of(trials: Iterable[Trial]) -> str:
    """Return the model that answered, as the server named it: one short line, masked."""
    found = next((one.answer.model for one in trials if one.answer.model), "")
    return shorten(mask_through(scrub(" ".join(found.split()))), MODEL_LIMIT)
