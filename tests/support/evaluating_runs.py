"""Test tools for evaluation runs: questions, agents that do as they are told, commands to kill."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lessons_loop.eval.answer_judge import grade
from lessons_loop.eval.question_set import EvalQuestion, QuestionSet
from lessons_loop.eval.run_folder import RunFolder
from lessons_loop.eval.runner import RunPlan, run_trials
from lessons_loop.eval.trials import Answer, Arm, Grade

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
        run_trials(plan_of(12), Told(by_seed, 0.004), graded, folder, workers=3)
