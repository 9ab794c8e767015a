"""Grade an answer: the checks first, a judge only where none of them can decide.

Covered: a judge never learns arm, run or lessons; trouble with it is UNJUDGED, never a
failure of the answer; an unreadable reply is not asked for again; three outages in a row end
judging. Not covered: whether the judge is right: `--judge manual` is the yardstick.
"""

from __future__ import annotations

import secrets
import threading
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from lessons_loop.eval.grading.checks import Reference, grade_by_checks
from lessons_loop.eval.grading.judge_messages import ANSWER_JUDGE_VERSION, judge_messages
from lessons_loop.eval.grading.judge_reply import read_grade
from lessons_loop.eval.question_set import EvalQuestion
from lessons_loop.eval.runs.setup import NEEDS_JUDGE
from lessons_loop.eval.trials import Answer, Grade, Trial
from lessons_loop.filter.errors import ModelError, UnreadableReply
from lessons_loop.filter.text import shorten
from lessons_loop.promote.masking import mask_through
from lessons_loop.promote.similar.asking import AskModel

OUTAGES_IN_A_ROW = 3
BY_CHECKS = "checks"
_WHY_LIMIT = 300


class AnswerJudge(Protocol):
    """Who decides by the rubric; called from several threads at once."""

    name: str
    """As records call it."""

    def judge(self, question: EvalQuestion, answer: Answer) -> tuple[Grade, str]:
        """Return the grade and why; trouble is UNJUDGED, never an exception."""


def grade(
    question: EvalQuestion,
    answer: Answer,
    reference: Reference | None = None,
    judge: AnswerJudge | None = None,
) -> tuple[Grade, str, str]:
    """Return the grade, why, and who graded: empty where nobody has yet."""
    if found := grade_by_checks(question, answer, reference):
        return (*found, BY_CHECKS)
    if judge is None:
        return Grade.UNJUDGED, NEEDS_JUDGE, ""
    return (*judge.judge(question, answer), judge.name)


def awaits_judge(trial: Trial) -> bool:
    """Say whether a trial was answered and nobody has graded it."""
    return trial.grade is Grade.UNJUDGED and not trial.graded_by and not trial.answer.outage


class ModelJudge:
    """Asks a model."""

    def __init__(
        self, model: AskModel, fence: Callable[[], str] = lambda: f"DATA-{secrets.token_hex(8)}"
    ) -> None:
        self.model = model
        self.name = f"judge {shorten(mask_through(model.model), 60)} ({ANSWER_JUDGE_VERSION})"
        self.counts: Counter[Grade] = Counter()
        self.ended = ""
        """Why judging ended; empty while it goes on."""
        self._fence = fence
        self._outages = 0
        self._lock = threading.Lock()

    def judge(self, question: EvalQuestion, answer: Answer) -> tuple[Grade, str]:
        """Return the model's grade."""
        found = (Grade.UNJUDGED, self.ended) if self.ended else self._asked(question, answer)
        with self._lock:
            self.counts[found[0]] += 1
        return found

    def _asked(self, question: EvalQuestion, answer: Answer) -> tuple[Grade, str]:
        try:
            found = read_grade(self.model.ask(judge_messages(question, answer, self._fence())))
        except UnreadableReply as error:
            found = Grade.UNJUDGED, shorten(f"judge: {error}", _WHY_LIMIT)
        except ModelError as error:
            return Grade.UNJUDGED, self._outage(str(error))
        with self._lock:
            self._outages = 0
        return found

    def _outage(self, error: str) -> str:
        with self._lock:
            self._outages += 1
            if self._outages >= OUTAGES_IN_A_ROW and not self.ended:
                told = f"judging ended after {self._outages} outages in a row: {error}"
                self.ended = shorten(told, _WHY_LIMIT)
        return shorten(f"judge: {error}", _WHY_LIMIT)
