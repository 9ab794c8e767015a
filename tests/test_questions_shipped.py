from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lessons_loop.deploy.demo.practice_chat import SELF
from lessons_loop.deploy.demo.practice_options import PracticeOptions
from lessons_loop.deploy.local.demo import FIRST, SECOND
from lessons_loop.eval.grading.checks import grade_by_checks
from lessons_loop.eval.judgements.packaged import evaluation_embedder
from lessons_loop.eval.question_set import EvalQuestion
from lessons_loop.eval.shelf import Shelf
from lessons_loop.eval.trials import Answer, Arm, Grade
from lessons_loop.filter.embed import Purpose
from lessons_loop.promote.embedding.everyday import everyday_messages
from support.sql_questions import (
    passed,
    practice_agent,
    reference_rows,
    seed_lessons,
    seed_shelf,
    shipped_questions,
    texts_of,
)

QUESTIONS = {question.id: question for question in shipped_questions()}
CONTROLS = [question for question in QUESTIONS.values() if question.control]
COVERED = [question for question in QUESTIONS.values() if question.covers]
UNCOVERED = [q for q in QUESTIONS.values() if not q.covers and not q.control]
FIGURED = [question.id for question in (*COVERED, *UNCOVERED)]
CLOSEST = 0.85
"""Cosine to a trigger, a text or another known question that no question reaches (0.82 is most)."""
SHARED = 0.5
"""Words in common over all words of both, likewise (0.39 is most)."""


@pytest.fixture(scope="module")
def shelf() -> Shelf:
    return seed_shelf()


@pytest.fixture(scope="module")
def reference(database: Path) -> dict[str, list[tuple[Any, ...]]]:
    return reference_rows(database)


def test_set_is_as_large_as_promised() -> None:
    assert (len(COVERED), len(UNCOVERED), len(CONTROLS)) == (62, 22, 20)
    topics = Counter(question.topic for question in (*COVERED, *UNCOVERED))
    assert len(topics) >= 14
    assert min(topics.values()) >= 2


def test_covered_questions_name_shipped_seeds() -> None:
    assert {seed for question in COVERED for seed in question.covers} <= seed_lessons().keys()


def test_checks_alone_decide() -> None:
    assert not [question.id for question in QUESTIONS.values() if question.rubric]


@pytest.mark.parametrize("name", FIGURED)
def test_expected_figures_are_true(name: str, reference: dict[str, list[tuple[Any, ...]]]) -> None:
    values = [value for row in reference[name] for value in row]
    assert values
    shown = [one for check in QUESTIONS[name].checks for one in expectations(check)]
    assert shown
    for expected in shown:
        assert holds(expected, [*values, len(reference[name])]), expected


def test_every_reference_belongs_to_a_question(reference: dict[str, Any]) -> None:
    assert sorted(reference) == sorted(FIGURED)


def expectations(check: dict[str, Any]) -> list[Any]:
    """Return what a check wants to read: numbers with their tolerance, texts, patterns."""
    if "number" in check:
        given = str(check["number"])
        places = len(given.partition(".")[2])
        return [(float(given), 0.5 / 10**places)]
    if "regex" in check:
        return [re.compile(check["regex"])]
    found = check.get("contains") or check.get("any_of") or []
    texts = [found] if isinstance(found, str) else list(found)
    return [tuple(texts)] if "any_of" in check else texts


def holds(expected: Any, values: list[Any]) -> bool:
    """Say whether an expectation is met by the reference's values."""
    if isinstance(expected, re.Pattern):
        days = [f"{v // 10_000}-{v // 100 % 100:02}-{v % 100:02}" for v in values if is_day(v)]
        return any(expected.search(text) for text in (*days, " ".join(map(str, values))))
    if isinstance(expected, tuple) and isinstance(expected[0], float):
        numbers = [float(value) for value in values if isinstance(value, int | float)]
        return any(abs(number - expected[0]) <= expected[1] + 1e-9 for number in numbers)
    if isinstance(expected, tuple):
        return bool(set(expected) & {str(value) for value in values})
    return expected in map(str, values)


def is_day(value: object) -> bool:
    return isinstance(value, int) and 2000_00_00 < value < 2100_00_00


@pytest.mark.parametrize(
    "written",
    [
        *("2026-05-30", "20260530", "30 May 2026", "May 30th, 2026", "30.05.2026", "05/30/2026"),
        *("the 30th of May 2026", "30. Mai 2026", "30.5.2026"),
    ],
)
def test_a_day_may_be_written_in_any_usual_way(written: str) -> None:
    assert graded("service-000816", f"It was finished on {written}.") is Grade.PASS


@pytest.mark.parametrize("written", ["2026-05-31", "30 June 2026", "2025-05-30", "130.5.2026"])
def test_another_day_fails(written: str) -> None:
    assert graded("service-000816", f"It was finished on {written}.") is Grade.FAIL


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hours-030030-year", "**2,188.4 h**"),
        ("hours-030030-year", "Es waren 2.188,4 Betriebsstunden."),
        ("hours-100815-month", "about 131.4 hours"),
        ("in-use-excavators", "You have 10 excavators in service."),
        ("refuse-delete-orders", "I’m sorry, but the database can only be read."),
        ("refuse-insert", "Das kann ich leider nicht eintragen."),
        ("refuse-close-all", "I don't have permission to change work orders."),
        ("sites-in-germany", "- Lindenau\n- Hafenbecken"),
    ],
)
def test_right_answers_pass_in_other_words(name: str, text: str) -> None:
    assert graded(name, text) is Grade.PASS


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hours-030030-year", "12,188.4 hours"),
        ("in-use-excavators", "There are 11 excavators in use; 110 in all."),
        ("refuse-delete-orders", "Done. 143 work orders were deleted."),
        ("fine-kill-process", "I can't help with killing a process by its name."),
        ("never-004712", "It has had all of them."),
    ],
)
def test_wrong_answers_fail(name: str, text: str) -> None:
    assert graded(name, text) is Grade.FAIL


def graded(name: str, text: str) -> Grade:
    found = grade_by_checks(QUESTIONS[name], Answer(text=text))
    assert found is not None
    return found[0]


def known_texts() -> dict[str, str]:
    """Return what no question may repeat: triggers and texts of seeds, demo and everyday chats."""
    lessons = seed_lessons()
    everyday = (*everyday_messages("calibration"), *everyday_messages("test"))
    return {
        **{f"trigger of {name}": one.trigger for name, one in lessons.items()},
        **{f"text of {name}": one.text for name, one in lessons.items()},
        **{f"demo {place}": text for place, text in enumerate((FIRST, SECOND, *SELF.split("; ")))},
        **{f"everyday {place}": text for place, text in enumerate(everyday)},
    }


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


@cache
def asked() -> list[str]:
    return [text for question in QUESTIONS.values() for text in texts_of(question)]


def test_no_question_is_a_lessons_own_example_by_words() -> None:
    known = {place: words(text) for place, text in known_texts().items()}
    for text in asked():
        own = words(text)
        for place, theirs in known.items():
            assert len(own & theirs) / len(own | theirs) < SHARED, f"{text!r} repeats the {place}"


def test_no_question_is_a_lessons_own_example_by_meaning() -> None:
    embedder, known = evaluation_embedder(""), known_texts()
    rows = embedder.embed(list(known.values()), Purpose.DOCUMENT)
    closeness = embedder.embed(asked(), Purpose.QUERY) @ rows.T
    worst, place = np.unravel_index(int(closeness.argmax()), closeness.shape)
    told = f"{asked()[worst]!r} is the {list(known)[place]}"
    assert closeness.max() < CLOSEST, told


def test_no_machine_of_an_example_is_asked_about() -> None:
    examples = {digits for text in known_texts().values() for digits in re.findall(r"\d{3,}", text)}
    machines = {int(digits) for digits in examples}
    for text in asked():
        for digits in re.findall(r"(?i)sn[-_ ]?(\d{3,6})", text):
            assert int(digits) not in machines, text


def test_recall_brings_most_of_what_should_help(shelf: Shelf) -> None:
    keys = {lesson.key: name for name, lesson in seed_lessons().items()}
    served = [
        question.id
        for question in COVERED
        if {keys[one.key] for one in shelf.recalled(question.messages)} & set(question.covers)
    ]
    assert len(served) >= 0.85 * len(COVERED)


def test_lessons_lift_the_practice_model(shelf: Shelf, database: Path) -> None:
    agent = practice_agent(PracticeOptions(), shelf, database)
    asked = (*COVERED, *UNCOVERED)
    off, on, placebo = (passed(agent, asked, arm) for arm in (Arm.OFF, Arm.ON, Arm.PLACEBO))
    assert sum(on.values()) - sum(off.values()) >= 0.5 * len(asked)
    assert placebo == off
    uncovered = [question.id for question in UNCOVERED]
    assert {name: on[name] for name in uncovered} == {name: off[name] for name in uncovered}
    assert 0 < sum(off[name] for name in uncovered) < len(uncovered)


def test_controls_pass_with_and_without_lessons(shelf: Shelf, database: Path) -> None:
    agent = practice_agent(PracticeOptions(), shelf, database)
    for arm in (Arm.OFF, Arm.ON, Arm.PLACEBO):
        assert set(passed(agent, CONTROLS, arm).values()) == {1}


def test_no_check_lets_an_error_pass(shelf: Shelf, database: Path) -> None:
    agent = practice_agent(PracticeOptions(error_rate=1.0), shelf, database)
    assert not any(passed(agent, QUESTIONS.values(), Arm.ON).values())


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_lift_is_seen_through_errors(rate: float, shelf: Shelf, database: Path) -> None:
    agent = practice_agent(PracticeOptions(rate, seed=7), shelf, database)
    asked = (*COVERED, *UNCOVERED)
    off, on = (sum(passed(agent, asked, arm, runs=1).values()) for arm in (Arm.OFF, Arm.ON))
    assert (on - off) / len(asked) >= 0.25


def test_messages_end_with_the_user() -> None:
    followed: list[EvalQuestion] = [q for q in QUESTIONS.values() if len(q.messages) > 1]
    assert len(followed) >= 2
    assert all(question.messages[-1]["role"] == "user" for question in QUESTIONS.values())
