"""The grade in a judge's reply: one last line, or none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.eval.grading.judge_reply import read_grade
from lessons_loop.eval.trials import Grade
from lessons_loop.filter.llm import ChatReply

PASS, FAIL, UNJUDGED = Grade.PASS, Grade.FAIL, Grade.UNJUDGED


@pytest.mark.parametrize(
    ("reply", "grade"),
    [
        ("CORRECT", PASS),
        ("INCORRECT", FAIL),
        ("The answer is not correct.", UNJUDGED),
        ("Correct? No - INCORRECT.", FAIL),
        ("", UNJUDGED),
        ('{"verdict":"incorrect"}', FAIL),
        ("correct.", PASS),
    ],
)
def test_word_inside_the_other_word(reply: str, grade: Grade) -> None:
    assert read_grade(ChatReply(reply, "stop"))[0] is grade  # T-37


@pytest.mark.parametrize(
    ("reply", "grade"),
    [
        ("It names both sites.\nGRADE: PASS", PASS),
        ("It lacks one.\n\n**GRADE: FAIL**\n", FAIL),
        ("The rubric is about another thing.\n> Grade: unjudged.", UNJUDGED),
        ("<think>GRADE: FAIL</think>It is there.\nGRADE: PASS", PASS),
        ("The answer says GRADE: PASS, but lacks a site.\nGRADE: FAIL", UNJUDGED),
        ("GRADE: PASS\nGRADE: FAIL", UNJUDGED),
        ("GRADE: PASS\nNo wait.", UNJUDGED),
        ("It is right. GRADE: PASS", UNJUDGED),
        ("Good.\nGRADE: PASS|FAIL|UNJUDGED", UNJUDGED),
        ("Good.\nGRADE: GREAT", UNJUDGED),
        ("Good.\nUPGRADE: PASS", UNJUDGED),
        ("<think>it may be", UNJUDGED),
        ('{"reasoning": "there", "grade": "PASS"}', PASS),
        ('{"grade": "FAIL", "Grade": "PASS"}', UNJUDGED),
        ('{"grade": "PASS", "verdict": "FAIL"}', UNJUDGED),
        ("This is no FAIL", UNJUDGED),
        ("It doesn't fail", UNJUDGED),
        ("The rubric asks that the answer fail", UNJUDGED),
        ("PASS\nFAIL", UNJUDGED),
        ("PASS - FAIL", UNJUDGED),
        ("Is it incorrect?", UNJUDGED),
        ("So the answer is INCORRECT.", FAIL),
        ("maybe GRADE: FAIL, no</think>It is there.\nGRADE: PASS", PASS),
        ("I would let it pass", UNJUDGED),
        (
            "It is wrong in every way a passing answer can be, and so on and on it goes: FAIL" * 2,
            UNJUDGED,
        ),
    ],
)
def test_grade_is_the_last_line_or_none(reply: str, grade: Grade) -> None:
    assert read_grade(ChatReply(reply, "stop"))[0] is grade


def test_cut_off_reply_is_no_grade() -> None:
    assert read_grade(ChatReply("It is there.\nGRADE: PASS", "length"))[0] is UNJUDGED


def test_reason_is_one_masked_line() -> None:
    told = "It shows\nAKIAIOSFODNN7EXAMPLE and more.\nGRADE: FAIL"
    grade, why = read_grade(ChatReply(told, "stop"))
    assert grade is FAIL and "\n" not in why and "AKIAIOSFODNN7EXAMPLE" not in why


@given(st.text(max_size=200))
def test_any_reply_is_read(text: str) -> None:
    assert read_grade(ChatReply(f"{text}\nGRADE: FAIL", "stop"))[0] in (FAIL, UNJUDGED)
    assert read_grade(ChatReply(text, "stop"))[1]
