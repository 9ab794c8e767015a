"""`--judge manual`: a person grades what is left once everything is asked."""

from __future__ import annotations

import random

from lessons_loop.eval.grading.judge_manual import ManualJudge
from lessons_loop.eval.question_set import QuestionSet
from lessons_loop.eval.runs.folder import RunFolder
from lessons_loop.promote.entry import login_name
from lessons_loop.promote.render import make_console
from lessons_loop.promote.review.terminal import ConsoleTerminal


def graded_by_hand(folder: RunFolder, questions: QuestionSet) -> None:
    """Ask a person about each answer that awaits a grade; what is graded stays.

    Raises KeyboardInterrupt after Ctrl-C, StoreError.
    """
    judge = ManualJudge(ConsoleTerminal(make_console()), login_name(), random.Random())
    by_id = {one.id: one for one in questions.questions}
    if judge.grade_all(folder.trials(), by_id, folder.append).interrupted:
        raise KeyboardInterrupt
