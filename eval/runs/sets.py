"""What a run is about: its arms, its questions' figures, the lessons its questions recall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from lessons_loop.eval.question_set import EvalQuestion, QuestionSet
from lessons_loop.eval.trials import Arm
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.models import Curated

WORDS: Mapping[str, tuple[Arm, ...]] = {
    "off": (Arm.OFF,),
    "on": (Arm.ON,),
    "placebo": (Arm.PLACEBO,),
    "aa": (Arm.OFF, Arm.OFF_AGAIN),
    "off-again": (Arm.OFF, Arm.OFF_AGAIN),
}
NEEDS_LESSONS = (Arm.ON, Arm.PLACEBO)


class Recalling(Protocol):
    """What tells which lessons a question gets: a shelf."""

    def recalled(self, messages: Sequence[Mapping[str, Any]]) -> tuple[Curated, ...]:
        """Return what would be injected for these messages, in order."""


def parse_arms(given: str, *, lessons: bool) -> tuple[Arm, ...]:
    """Return the arms of a comma list; raise LessonsError, also where there are no lessons."""
    names = [name.strip().lower() for name in given.split(",") if name.strip()]
    if strange := [name for name in names if name not in WORDS]:
        raise LessonsError(f"unknown arm {strange[0][:40]!r}: one of off, on, placebo, aa")
    named = {arm for name in names for arm in WORDS[name]}
    arms = tuple(arm for arm in Arm if arm in named)
    if not arms:
        raise LessonsError("no arm given: --arms off,on")
    if not lessons and (needing := [arm for arm in arms if arm in NEEDS_LESSONS]):
        raise LessonsError(f"arm {needing[0]} needs lessons: give --store, or --arms aa")
    return arms


def recalled_by(shelf: Recalling, questions: QuestionSet) -> dict[str, tuple[Curated, ...]]:
    """Return the lessons each question recalls, by its id; raise EmbedError."""
    return {one.id: shelf.recalled(one.messages) for one in questions.questions}


def gradable(found: QuestionSet, *, judge: bool, reference: bool) -> QuestionSet:
    """Return the set without what nobody could grade: no judge, no database; its digest stays.

    Raises LessonsError where nothing is left.
    """

    def graded(one: EvalQuestion) -> bool:
        return (judge or not one.rubric) and (reference or not asks_reference(one))

    kept = tuple(one for one in found.questions if graded(one))
    if not kept:
        raise LessonsError(
            f"no question of {found.domain} can be graded: give a judge (LESSONS_LLM_URL, "
            "LESSONS_LLM_MODEL) for rubrics, --reference-db (LESSONS_EVAL_DATABASE) for sql_result"
        )
    return found.model_copy(update={"questions": kept})


def asks_reference(question: EvalQuestion) -> bool:
    """Say whether a check of the question needs the reference database."""
    return any("sql_result" in check for check in question.checks)


def measured(questions: QuestionSet) -> tuple[int, int, int]:
    """Return how many questions count for the lift, their topics, and how many are controls."""
    counted = [one for one in questions.questions if not one.control]
    controls = len(questions.questions) - len(counted)
    return len(counted), len({one.topic for one in counted}), controls
