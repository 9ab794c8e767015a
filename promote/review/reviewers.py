"""Reviewers: a person at a terminal, or a model.

Covered: a person's decisions survive Ctrl-C and a closed terminal; a model's answer
counts only in the agreed form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import yaml

from lessons_loop.filter.errors import InvalidLesson, ModelError
from lessons_loop.filter.kinds import Kind
from lessons_loop.filter.models import Curated, Lesson
from lessons_loop.promote.cases import Case
from lessons_loop.promote.lint.check import blocking
from lessons_loop.promote.lint.hidden import reveal, strip_hidden
from lessons_loop.promote.masking import mask_through
from lessons_loop.promote.records import Actor, Decision, Neighbour
from lessons_loop.promote.review.prompt import (
    REVIEW_PROMPT_VERSION,
    read_review,
    review_messages,
)
from lessons_loop.promote.runs.drive import Review
from lessons_loop.promote.similar.asking import AskModel
from lessons_loop.promote.similar.judge_prompt import Word
from lessons_loop.promote.similar.similarity import BROADER, CONFLICT

QUESTION = "promote? [y]es [n]o [e]dit [s]kip [q]uit (Enter: skip) "

ANSWERS = ("", "y", "yes", "n", "no", "e", "edit", "s", "skip", "q", "quit")


class ModelReviewer:
    """Asks a model; raises ModelError when it did not decide."""

    def __init__(self, model: AskModel) -> None:
        self.model = model

    def review(self, case: Case, recase: Callable[[Lesson], Case]) -> Review:
        """Return the model's verdict on a case no rule stands against."""
        if case.verdict.decision is not Decision.PROMOTE:
            raise ModelError(f"a rule stands against it ({case.verdict.rule}): a person decides")
        found = read_review(self.model.ask(review_messages(case)))
        actor = Actor(
            kind="llm", name="review", model=self.model.model, prompt=REVIEW_PROMPT_VERSION
        )
        return Review(found.decision, found.reason, actor)


class Terminal(Protocol):
    """Where a person is asked."""

    def show(self, case: Case) -> None:
        """Print a case."""

    def say(self, text: str) -> None:
        """Print one line."""

    def ask(self, question: str) -> str:
        """Return one line of input; raise EOFError, KeyboardInterrupt."""

    def edit(self, text: str) -> str | None:
        """Return the text as the person leaves it, None when unchanged."""


@dataclass
class HumanReviewer:
    """Asks a person; the end of input, Ctrl-C and `q` end the run, not the decisions made."""

    terminal: Terminal
    name: str
    interrupted: bool = False

    def review(self, case: Case, recase: Callable[[Lesson], Case]) -> Review:
        """Return the person's decision."""
        try:
            return self._asked(case, recase)
        except (EOFError, KeyboardInterrupt) as error:
            self.interrupted = isinstance(error, KeyboardInterrupt)
            self.terminal.say("stopped: decisions already made are kept")
            return self._decided(Decision.SKIP, "stopped", stop=True)

    def _asked(self, case: Case, recase: Callable[[Lesson], Case]) -> Review:
        present, edited = case, None
        self._show(present)
        while True:
            answer = self._answer()
            if answer == "q":
                return self._decided(Decision.SKIP, "stopped", stop=True)
            if answer in ("", "s"):
                return self._decided(Decision.SKIP, "skipped")
            if answer == "e":
                if lesson := self._edited(present.group.lesson):
                    edited, present = lesson, recase(lesson)
                    self._show(present)
            elif answer == "n":
                return self._decided(Decision.REJECT, self._reason())
            elif answer == "y" and (review := self._promoted(present, edited)):
                return review

    def _show(self, case: Case) -> None:
        self.terminal.show(case)
        if case.judgement is not None:
            self.terminal.say(f"judge:     {reveal(mask_through(case.judgement.told()))}")

    def _answer(self) -> str:
        """Return the first letter of a known answer: `yesterday` is none."""
        while (answer := self.terminal.ask(QUESTION).strip().casefold()) not in ANSWERS:
            self.terminal.say("answer y, n, e, s or q")
        return answer[:1]

    def _promoted(self, case: Case, edited: Lesson | None) -> Review | None:
        if bad := blocking(case.findings):
            self.terminal.say(f"cannot be promoted as it is: {bad[0].sentence}; edit it first")
            return None
        replaces = self._replaced(case)
        reason = self._reason()
        actor = Actor(kind="human", name=self.name)
        return Review(Decision.PROMOTE, reason, actor, edited, replaces, case)

    def _replaced(self, case: Case) -> Curated | None:
        near = case.verdict.neighbour
        if near is None or not (word := _standing(case, near)):
            return None
        question = f"retire the {word} lesson {near.curated.key[:12]}? [y/N] "
        return near.curated if self.terminal.ask(question).strip().casefold() == "y" else None

    def _reason(self) -> str:
        while not (reason := " ".join(self.terminal.ask("reason: ").split())):
            self.terminal.say("a reason is required")
        return strip_hidden(reason)

    def _edited(self, lesson: Lesson) -> Lesson | None:
        written = self.terminal.edit(lesson_as_yaml(lesson))
        if written is None:
            self.terminal.say("nothing changed")
            return None
        try:
            return lesson_from_yaml(written, lesson)
        except InvalidLesson as error:
            self.terminal.say(f"not taken over: {error}")
            return None

    def _decided(self, decision: Decision, reason: str, *, stop: bool = False) -> Review:
        return Review(decision, reason, Actor(kind="human", name=self.name), stop=stop)


def _standing(case: Case, near: Neighbour) -> str:
    """Return what the nearest lesson is to one that may take its place; empty: keep both."""
    said = case.judgement.word if case.judgement else None
    if near.relation == CONFLICT or said is Word.CONTRADICTS:
        return "conflicting"
    if near.relation == BROADER or said is Word.BROADER:
        return "narrower"
    return ""


def lesson_as_yaml(lesson: Lesson) -> str:
    """Return what a person may edit."""
    kinds = ", ".join(Kind)
    fields = {
        "text": lesson.text,
        "kind": lesson.kind.value,
        "trigger": lesson.trigger,
        "tags": list(lesson.tags),
    }
    shown = yaml.safe_dump(fields, allow_unicode=True, sort_keys=False, width=1000)
    return f"# kind is one of: {kinds}\n{shown}"


def lesson_from_yaml(written: str, lesson: Lesson) -> Lesson:
    """Return the lesson with the edited fields, hidden characters removed; raise InvalidLesson."""
    try:
        fields = yaml.safe_load(strip_hidden(written))
    except yaml.YAMLError:
        raise InvalidLesson("the edited text is no YAML") from None
    if not isinstance(fields, dict) or set(fields) - {"text", "kind", "trigger", "tags"}:
        raise InvalidLesson("give text, kind, trigger and tags, nothing else")
    if not isinstance(fields.get("tags") or [], list):
        raise InvalidLesson("tags: give a list")
    merged = lesson.model_dump() | fields | {"tags": tuple(fields.get("tags") or ())}
    return Lesson.build(**merged)
