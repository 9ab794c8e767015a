"""Checks decide whether an answer passes: each kind, and what is no failure."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.eval.grading.checks import grade_by_checks
from lessons_loop.eval.trials import Grade
from lessons_loop.filter.errors import LessonsError
from support.answers import answered, asked, called

ROWS = '{"columns":["n"],"rows":[[3]]}'
OTHER = '{"columns":["n"],"rows":[[4]]}'
CUT = '{"columns":["n"],"rows":[[3]],"truncated":"only the first 1 rows"}'


def passes(check: dict[str, Any], text: str) -> bool:
    """Say whether an answer of this text passes."""
    found = grade_by_checks(asked(check), answered(text))
    assert found is not None
    return found[0] is Grade.PASS


@pytest.mark.parametrize(
    ("phrase", "text", "right"),
    [
        ("correct", "INCORRECT", False),  # T-37
        ("47", "147 or 4.7 or 47.5 or 470", False),
        ("47", "it is 47.", True),
        ("open order", "Open\u00a0  ORDER", True),
        ("SN-004711", "**SN‑004711**", True),
        ("serial_key", "use `serial_key` here", True),
        ("serial_key", "my_serial_key", False),
        ("don't", "Don’t do that", True),
        ("Straße", "STRASSE", True),
        ("café", "cafe\u0301", True),
        ("reporting window", "reporting\u00ad window", True),
        ("12 %", "exactly 12 %", True),
        ("机器", "这台机器在运行", True),
        ("gone", "<think>gone</think> here", False),
    ],
)
def test_phrases_are_whole_words_in_any_spelling(phrase: str, text: str, right: bool) -> None:
    assert passes({"contains": phrase}, text) is right
    assert passes({"not_contains": phrase}, text) is not right
    assert passes({"any_of": ["zzz", phrase]}, text) is right


@given(st.from_regex(r"[a-z]{2,8}", fullmatch=True), st.from_regex(r"[a-z]{1,5}", fullmatch=True))
def test_no_word_is_found_inside_another(word: str, more: str) -> None:
    assert not passes({"contains": word}, f"{more}{word} {word}{more} x")
    assert passes({"contains": word}, f"({word.upper()}), then")


def test_all_texts_must_be_there_or_none() -> None:
    assert not passes({"contains": ["a", "b"]}, "only a")
    assert not passes({"not_contains": ["c", "a"]}, "only a")
    assert not passes({"any_of": ["b", "c"]}, "only a")


def test_regex_sees_lines_and_ignores_case() -> None:
    assert passes({"regex": "^total: \\d+$"}, "so\nTotal: 12\nend")
    assert not passes({"regex": "^12$"}, "Total: 12")


@pytest.mark.parametrize(
    ("check", "calls", "right"),
    [
        ({"tool_called": "run_sql"}, [called(ROWS)], True),
        ({"tool_called": "run_sql"}, [called(tool="demo_run_sql")], True),
        ({"tool_called": "run_sql"}, [called(tool="rerun_sqlite")], False),
        ({"tool_not_called": "run_sql"}, [], True),
        ({"tool_not_called": "run_sql"}, [called(failed=True)], False),
        ({"max_tool_calls": 1}, [called(), called()], False),
        ({"max_tool_calls": 1, "failed": True}, [called(), called()], True),
        ({"max_failed_calls": 0}, [called(), called(failed=True)], False),
        ({"sql_result": "x"}, [called(OTHER), called(ROWS)], True),
        ({"sql_result": "x"}, [called(ROWS), called(OTHER)], False),
        ({"sql_result": "x"}, [called(ROWS), called("no", failed=True)], True),
        ({"sql_result": "x"}, [called(ROWS), called("[]", tool="describe_tables")], True),
        ({"sql_result": "x"}, [called(ROWS, tool="ask")], False),
        ({"sql_result": "x", "tool": "ask"}, [called(ROWS, tool="ask")], True),
        ({"sql_result": "x", "within": 1}, [called(OTHER)], True),
        ({"sql_result": "x"}, [], False),
    ],
)
def test_tool_calls(check: dict[str, Any], calls: list[Any], right: bool) -> None:
    found = grade_by_checks(asked(check), answered("so", *calls), lambda query: [(3,)])
    assert found is not None and found[0] is (Grade.PASS if right else Grade.FAIL)


def broken(query: str) -> list[Any]:
    """Fail as a reference database does."""
    raise LessonsError("the reference query failed: no such table")


@pytest.mark.parametrize(
    ("answer", "reference", "why"),
    [
        (answered("", outage="timed out"), None, "outage: timed out"),
        (answered("3", called(ROWS)), None, "no reference database"),
        (answered("3", called(ROWS)), broken, "no such table"),
        (answered("3", called(CUT)), lambda query: [(3,), (4,)], "cut its result off"),
    ],
)
def test_what_is_no_failure_of_the_answer(answer: Any, reference: Any, why: str) -> None:
    found = grade_by_checks(asked({"sql_result": "x"}), answer, reference)
    assert found is not None and found[0] is Grade.UNJUDGED and why in found[1]


def test_failure_comes_before_doubt_and_rubric() -> None:
    question = asked({"sql_result": "x"}, {"contains": "three"}, rubric="is polite")
    found = grade_by_checks(question, answered("four", called(ROWS)))
    assert found is not None and found[0] is Grade.FAIL


def test_rubric_has_the_last_word() -> None:
    assert grade_by_checks(asked({"contains": "a"}, rubric="is polite"), answered("a")) is None
    assert grade_by_checks(asked(rubric="is polite"), answered("a")) is None


@pytest.mark.parametrize("text", ["", " \n", "<think>I should refuse</think>"])
def test_empty_answer_fails_whatever_is_asked(text: str) -> None:
    found = grade_by_checks(asked({"not_contains": "secret"}), answered(text))
    assert found == (Grade.FAIL, "the answer is empty")


@given(st.text(max_size=200))
def test_why_is_one_line(text: str) -> None:
    question = asked({"number": 12345.678}, {"contains": "never there"})
    found = grade_by_checks(question, answered(f"x{text}"))
    assert found is not None and "\n" not in found[1] and len(found[1]) <= 300
