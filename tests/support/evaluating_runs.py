"""Test tools for evaluation runs: questions, agents that do as they are told, commands to kill."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lessons_loop.deploy.demo.practice_model import PracticeServer
from lessons_loop.deploy.demo.practice_options import PracticeOptions
from lessons_loop.deploy.evaluation.setup import DEMO_TOOLS
from lessons_loop.eval.grading.answer_judge import grade
from lessons_loop.eval.question_set import EvalQuestion, QuestionSet
from lessons_loop.eval.runs.folder import RunFolder, identity
from lessons_loop.eval.runs.runner import RunPlan, run_trials
from lessons_loop.eval.serving import serving
from lessons_loop.eval.trials import Answer, Arm, Grade, Trial
from support.commands import Done

DOWN = "connection refused"


def question(name: str, says: str = "42", *, topic: str = "hours") -> EvalQuestion:
    """Return a question that an answer holding `says` passes."""
    messages = ({"role": "user", "content": f"What about {name}?"},)
    return EvalQuestion(id=name, messages=messages, topic=topic, checks=({"contains": says},))


def question_set(count: int, digest: str = "d" * 64) -> QuestionSet:
    """Return so many questions in two topics."""
    found = [question(f"q{n}", topic=f"t{n % 2}") for n in range(count)]
    return QuestionSet(domain="sql", questions=tuple(found), digest=digest)


def plan_of(count: int = 4, arms: Sequence[Arm] = (Arm.OFF, Arm.ON), runs: int = 2) -> RunPlan:
    """Return a small plan."""
    return RunPlan(question_set(count), tuple(arms), runs, 7)


class Told:
    """An agent that answers as a function says, and notes what it was asked."""

    def __init__(self, says: Callable[[str, Arm, int], str | Answer], seconds: float = 0.0) -> None:
        self.name = "told"
        self.asked: list[tuple[str, Arm, int]] = []
        self._says, self._seconds, self._lock = says, seconds, threading.Lock()

    def answer(self, question: EvalQuestion, arm: Arm, seed: int) -> Answer:
        """Answer; an empty text is an outage."""
        time.sleep(self._seconds)
        with self._lock:
            self.asked.append((question.id, arm, seed))
            said = self._says(question.id, arm, seed)
        if isinstance(said, Answer):
            return said
        return Answer(text=said, model="told") if said else Answer(outage=DOWN)


def by_seed(name: str, arm: Arm, seed: int) -> str:
    """Answer right in two of three cases, as a seeded model does."""
    return "42" if seed % 3 else "41"


def graded(question: EvalQuestion, answer: Answer) -> tuple[Grade, str, str]:
    """Grade by the checks alone."""
    return grade(question, answer)


def run_slowly(root: Path) -> None:
    """Run a plan in a folder, for a process that gets killed; a second start goes on."""
    folder = RunFolder(root / "run")
    with folder.held():
        folder.begin({"seed": 7})
        run_trials(plan_of(12), Told(by_seed, 0.03), graded, folder, workers=3)


QUESTIONS = """\
- id: hours-of-030030
  topic: hours
  question: Wie viele Betriebsstunden hatte SN-030030 in den letzten zwölf Monaten?
  covers: [hours-of-one-machine]
  checks:
    - number: 2188.4
      within: 0.06
- id: excavators-in-use
  topic: in-use
  question: How many excavators do we have in use right now?
  checks:
    - number: 10
- id: open-orders
  topic: orders
  question: Which work orders of one machine are not closed, how many open orders has SN-030030?
  checks:
    - number: 7
- id: small-sum
  topic: small-facts
  question: What is 17 times 23?
  control: true
  checks:
    - number: 391
"""


def question_folder(place: Path, text: str = QUESTIONS) -> Path:
    """Write a folder of questions on the demo data."""
    folder = place / "questions"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "few.yaml").write_text(text, encoding="utf-8")
    return folder


@contextmanager
def practice_model(error_rate: float = 0.0, log: Path | None = None) -> Iterator[PracticeServer]:
    """Serve the practice model."""
    with serving(PracticeServer(0, log, PracticeOptions(error_rate, 7))) as server:
        yield server


def agent_words(url: str, database: Path, questions: Path, *more: str) -> list[str]:
    """Return `eval run` with the harness's own agent on the demo data."""
    return [
        *("eval", "run", "--questions", str(questions), "--agent-url", url),
        *("--agent-model", "practice-model", "--tools", str(DEMO_TOOLS)),
        *("--tool-valves", json.dumps({"database": str(database)})),
        *("--reference-db", str(database), *more),
    ]


def trials_in(folder: Path) -> list[Trial]:
    """Return a run's trials without what a clock made, sorted."""
    found = RunFolder(folder).trials()
    plain = [t.answer.model_copy(update={"seconds": 0.0}) for t in found]
    trials = [t.model_copy(update={"answer": a}) for t, a in zip(found, plain, strict=True)]
    return sorted(trials, key=identity)


def told(done: Done) -> str:
    """Return what a command said on stderr: one line."""
    assert done.err.count("\n") == 1, done.err
    return done.err
