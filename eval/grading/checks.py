"""Grade an answer by its question's checks: deterministic, without a model.

Covered: all checks must hold; an outage or a missing reference database is no failure but
UNJUDGED; an empty answer fails. Not covered: whether an answer that passes is well put.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lessons_loop.eval.grading.answer_numbers import figures_in, has_number
from lessons_loop.eval.grading.answer_rows import Returned, rows_of, same_rows
from lessons_loop.eval.grading.answer_text import comparable, has_phrase, one_spelling, shown_text
from lessons_loop.eval.grading.bounded_regex import SearchTooLong, found_in
from lessons_loop.eval.grading.check_forms import Check, read_check
from lessons_loop.eval.question_set import EvalQuestion
from lessons_loop.eval.trials import Answer, Grade
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.text import shorten
from lessons_loop.promote.counting import many

SQL_TOOL = "run_sql"
WHY_LIMIT = 300
_SHOWN_FIGURES = 6
Reference = Callable[[str], Sequence[tuple[Any, ...]]]
"""Runs one query on the reference database; raises LessonsError."""


class Finding(NamedTuple):
    """What one check says."""

    grade: Grade
    why: str = ""


HOLDS = Finding(Grade.PASS)


def grade_by_checks(
    question: EvalQuestion, answer: Answer, reference: Reference | None = None
) -> tuple[Grade, str] | None:
    """Return the grade and why; None where all checks hold and the rubric has the last word."""
    if answer.outage:
        return Grade.UNJUDGED, _line(f"outage: {answer.outage}")
    if not shown_text(answer.text).strip():
        return Grade.FAIL, "the answer is empty"
    findings = [_checked(read_check(check), answer, reference) for check in question.checks]
    for grade in (Grade.FAIL, Grade.UNJUDGED):
        if found := [finding for finding in findings if finding.grade is grade]:
            return grade, _line(found[0].why)
    if question.rubric or not question.checks:
        return None
    return Grade.PASS, f"{many(len(findings), 'check')} passed"


def _line(text: str) -> str:
    return shorten(" ".join(text.split()), WHY_LIMIT)


def _checked(check: Check, answer: Answer, reference: Reference | None) -> Finding:
    if check.kind == "sql_result":
        return _sql_result(check, answer, reference)
    return _CHECKS[check.kind](check, answer)


def _failed(why: str) -> Finding:
    return Finding(Grade.FAIL, why)


def _contains(check: Check, answer: Answer) -> Finding:
    text = comparable(shown_text(answer.text))
    missing = [phrase for phrase in check.texts if not has_phrase(text, phrase)]
    return _failed(f"contains: {missing[0]!r} is not in the answer") if missing else HOLDS


def _not_contains(check: Check, answer: Answer) -> Finding:
    text = comparable(shown_text(answer.text))
    found = [phrase for phrase in check.texts if has_phrase(text, phrase)]
    return _failed(f"not_contains: {found[0]!r} is in the answer") if found else HOLDS


def _any_of(check: Check, answer: Answer) -> Finding:
    text = comparable(shown_text(answer.text))
    if any(has_phrase(text, phrase) for phrase in check.texts):
        return HOLDS
    return _failed(f"any_of: none of {len(check.texts)} texts is in the answer")


def _regex(check: Check, answer: Answer) -> Finding:
    try:
        found = found_in(check.texts[0], one_spelling(shown_text(answer.text)))
    except SearchTooLong as error:
        return Finding(Grade.UNJUDGED, f"regex: {error}")
    return HOLDS if found else _failed(f"regex: {check.texts[0]!r} finds nothing")


def _number(check: Check, answer: Answer) -> Finding:
    if has_number(answer.text, check.number, check.within):
        return HOLDS
    written = [figure.written for figure in figures_in(answer.text)[:_SHOWN_FIGURES]]
    return _failed(
        f"number: {check.number} is not in the answer; {', '.join(written) or 'none'} is"
    )


def _tool_called(check: Check, answer: Answer) -> Finding:
    called = any(is_tool(call.tool, check.texts[0]) for call in answer.calls)
    return HOLDS if called else _failed(f"tool_called: {check.texts[0]} was not called")


def _tool_not_called(check: Check, answer: Answer) -> Finding:
    called = any(is_tool(call.tool, check.texts[0]) for call in answer.calls)
    return _failed(f"tool_not_called: {check.texts[0]} was called") if called else HOLDS


def _calls(check: Check, answer: Answer) -> Finding:
    count = sum(call.failed or not check.flag for call in answer.calls)
    kind = "failed calls" if check.flag else "calls"
    if count <= check.limit:
        return HOLDS
    return _failed(f"{check.kind}: {count} {kind}, at most {check.limit} allowed")


def is_tool(called: str, named: str) -> bool:
    """Say whether a call went to a tool; Open WebUI may put its server's id in front."""
    return called == named or called.endswith((f"_{named}", f".{named}", f"/{named}"))


def _sql_result(check: Check, answer: Answer, reference: Reference | None) -> Finding:
    if reference is None:
        return Finding(Grade.UNJUDGED, "sql_result: no reference database: give --reference-db")
    tool = check.tool or SQL_TOOL
    found = _last_rows(answer, tool)
    if found is None:
        return _failed(f"sql_result: no successful call of {tool} returned rows")
    try:
        wanted = [tuple(row) for row in reference(check.texts[0])]
    except LessonsError as error:
        return Finding(Grade.UNJUDGED, f"sql_result: {error}")
    if found.cut and len(wanted) > len(found.rows):
        return Finding(Grade.UNJUDGED, "sql_result: the tool cut its result off")
    if not found.cut and same_rows(found.rows, wanted, ordered=check.flag, within=check.within):
        return HOLDS
    counts = f"{many(len(found.rows), 'row')}, the reference has {len(wanted)}"
    return _failed(f"sql_result: the last result of {tool} is another one ({counts})")


def _last_rows(answer: Answer, tool: str) -> Returned | None:
    done = [call for call in answer.calls if is_tool(call.tool, tool) and not call.failed]
    return rows_of(done[-1].result) if done else None


_CHECKS: dict[str, Callable[[Check, Answer], Finding]] = {
    "contains": _contains,
    "not_contains": _not_contains,
    "any_of": _any_of,
    "regex": _regex,
    "number": _number,
    "tool_called": _tool_called,
    "tool_not_called": _tool_not_called,
    "max_tool_calls": _calls,
    "max_failed_calls": _calls,
}
