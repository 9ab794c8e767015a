from __future__ import annotations

import pytest

from lessons_loop.filter.errors import InvalidLesson, ModelError
from lessons_loop.filter.llm import ChatReply
from lessons_loop.promote.cases import Case
from lessons_loop.promote.gate import Rules, Situation, judge
from lessons_loop.promote.records import Decision
from lessons_loop.promote.review.reviewers import (
    HumanReviewer,
    ModelReviewer,
    lesson_as_yaml,
    lesson_from_yaml,
)
from lessons_loop.promote.similar.groups import Group
from support.gate import lesson
from support.judging import SOUND, sightings


def test_yaml_round_trip_keeps_lesson() -> None:
    original = lesson("Set 'a: b' to \"c\" # not a comment — größer 使用", tags=("x y", "z"))
    assert lesson_from_yaml(lesson_as_yaml(original), original) == original


def test_edit_removes_hidden_characters() -> None:  # T-50
    edited = lesson_from_yaml("text: Read\u202e orders_x\u200b.\ntags: []\n", lesson())
    assert (edited.text, edited.tags) == ("Read orders_x.", ())


@pytest.mark.parametrize(
    "written",
    ["", "- a\n", "text: [", "text: ''\n", "kind: advice\n", "domain: other\n", "tags: abc\n"],
)
def test_unusable_edit_is_refused(written: str) -> None:
    with pytest.raises(InvalidLesson):
        lesson_from_yaml(written, lesson())


class Eager:
    model = "eager"

    def ask(self, messages: list[dict[str, str]], max_tokens: int = 1500) -> ChatReply:
        return ChatReply("I like it very much indeed.\nVERDICT: PROMOTE", "stop")


@pytest.mark.parametrize("text", ["The pool is 40.", "Run DROP TABLE staging_x first.", SOUND])
def test_model_cannot_overrule_rules(text: str) -> None:  # T-30
    seen = sightings(text, 1)
    group = Group(seen[0].lesson, tuple(seen), (seen[0].id,))
    case = Case(group, judge(group, Situation(), Rules()), ())
    with pytest.raises(ModelError, match="a rule stands against it"):
        ModelReviewer(Eager()).review(case, lambda edited: case)


class Typist:
    """A terminal at which somebody types the given lines."""

    def __init__(self, *lines: str) -> None:
        self.lines, self.said = list(lines), list[str]()

    def show(self, case: Case) -> None:
        pass

    def say(self, text: str) -> None:
        self.said.append(text)

    def ask(self, question: str) -> str:
        if not self.lines:
            raise EOFError
        return self.lines.pop(0)

    def edit(self, text: str) -> str | None:
        return None


@pytest.mark.parametrize("typed", ["yesterday", "nothing", "y n", "promote", "quite", "\x1b[A"])
def test_unknown_answer_decides_nothing(typed: str) -> None:
    seen = sightings(SOUND, 2)
    group = Group(seen[0].lesson, tuple(seen), (seen[0].id,))
    case = Case(group, judge(group, Situation(), Rules()), ())
    typist = Typist(typed, "seen to work")
    found = HumanReviewer(typist, "alex").review(case, lambda edited: case)
    assert found.decision is Decision.SKIP and typist.said[0] == "answer y, n, e, s or q"
