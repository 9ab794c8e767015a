"""A person grades in the terminal: in random order over the arms, which are not shown.

Covered: equal answers to one question are shown once and get one grade; every grade is kept
at once, so that Ctrl-C, `q` and a closed terminal lose nothing; `b` goes back.
Not covered: an answer whose style gives the arm away.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from lessons_loop.eval.grading.answer_judge import awaits_judge
from lessons_loop.eval.grading.judge_messages import seen_by_judge
from lessons_loop.eval.question_set import EvalQuestion
from lessons_loop.eval.trials import Grade, Trial
from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.lint.hidden import reveal

PROMPT = "grade? [p]ass [f]ail [u]njudged [b]ack [q]uit "
ANSWERS = {"p": Grade.PASS, "f": Grade.FAIL, "u": Grade.UNJUDGED}
_WORDS = ("p", "pass", "f", "fail", "u", "unjudged", "b", "back", "q", "quit")
Keep = Callable[[Trial], None]
"""Stores a graded trial; a later one of the same trial replaces it."""


class Terminal(Protocol):
    """Where a person is asked."""

    def say(self, text: str) -> None:
        """Print one line."""

    def ask(self, question: str) -> str:
        """Return one line of input; raise EOFError, KeyboardInterrupt."""


class HandResult(NamedTuple):
    """What a person did."""

    graded: int
    """Trials graded now."""
    left: int
    """Trials that still await a grade."""
    interrupted: bool
    """By Ctrl-C."""


class _Sheet(NamedTuple):
    """Trials of one question with one and the same answer."""

    question: EvalQuestion
    trials: tuple[Trial, ...]


def require_terminal() -> None:
    """Raise LessonsError where no person can be asked."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LessonsError("--judge manual needs a terminal: run the command in one")


class ManualJudge:
    """Asks a person about all trials that await a grade."""

    def __init__(self, terminal: Terminal, person: str, chance: random.Random) -> None:
        self.terminal = terminal
        self.name = f"manual {person}".strip()
        self._chance = chance

    def grade_all(
        self, trials: Sequence[Trial], questions: Mapping[str, EvalQuestion], keep: Keep
    ) -> HandResult:
        """Ask about each answer that awaits a grade; `questions` by id."""
        sheets = list(
            _sheets([t for t in trials if awaits_judge(t) and t.question in questions], questions)
        )
        self._chance.shuffle(sheets)
        total = sum(len(sheet.trials) for sheet in sheets)
        done: dict[int, int] = {}
        interrupted, place = False, 0
        try:
            while place < len(sheets):
                equal = len(sheets[place].trials)
                more = f"; the next grade is for {equal} equal answers" if equal > 1 else ""
                self.terminal.say(f"graded {sum(done.values())} of {total}{more}")
                key = self._asked(sheets[place])
                if key == "q":
                    break
                if key == "b":
                    place = max(0, place - 1)
                    continue
                for trial in sheets[place].trials:
                    keep(self._graded(trial, ANSWERS[key]))
                done[place] = len(sheets[place].trials)
                place += 1
        except (EOFError, KeyboardInterrupt) as error:
            interrupted = isinstance(error, KeyboardInterrupt)
        graded = sum(done.values())
        told = f"graded {graded} of {total}; grades given are kept"
        self.terminal.say(told if total else "no answer waits for a grade")
        return HandResult(graded, total - graded, interrupted)

    def _asked(self, sheet: _Sheet) -> str:
        for line in sheet_lines(sheet.question, sheet.trials[0]):
            self.terminal.say(line)
        while (given := self.terminal.ask(PROMPT).strip().casefold()) not in _WORDS:
            self.terminal.say("answer p, f, u, b or q")
        return given[0]

    def _graded(self, trial: Trial, grade: Grade) -> Trial:
        told = {"grade": grade, "why": "graded by hand", "graded_by": self.name}
        return trial.model_copy(update=told)


def sheet_lines(question: EvalQuestion, trial: Trial) -> Iterator[str]:
    """Yield what the person reads: what a judging model would get."""
    seen = seen_by_judge(question, trial.answer)
    yield "-" * 60
    for message in seen["question"]:
        yield from _folded(f"{message['role']}: ", message["content"])
    yield from _folded("rubric: ", seen["rubric"])
    for call in seen["tool_calls"]:
        yield from _folded(f"call {call['tool']}: ", call["arguments"])
        yield from _folded("  failed: " if call["failed"] else "  result: ", call["result"])
    yield from _folded("answer: ", seen["answer"])


def _folded(label: str, text: str) -> Iterator[str]:
    """Yield a text below its label; no line of it can pass for a label."""
    first, *rest = reveal(text).splitlines() or [""]
    yield f"{label}{first}"
    yield from (f"  | {line}" for line in rest)


def _sheets(trials: Sequence[Trial], questions: Mapping[str, EvalQuestion]) -> Iterator[_Sheet]:
    equal: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        shown = "\n".join(sheet_lines(questions[trial.question], trial))
        equal.setdefault((trial.question, shown), []).append(trial)
    for (name, _), same in equal.items():
        yield _Sheet(questions[name], tuple(same))
