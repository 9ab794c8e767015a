"""Questions and answers to unfold: so that whoever owns them sees why something failed."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from lessons_loop.eval.report.comparison import QuestionRow, Report
from lessons_loop.eval.stats.pairs import Effect
from lessons_loop.eval.trials import Grade, Trial
from lessons_loop.filter.text import shorten
from lessons_loop.promote.lint.hidden import reveal
from lessons_loop.promote.masking import mask_through

ANSWER = 1500
"""Characters of an answer that are shown."""
ANSWERS = 24
"""Answers of a question that are shown; the run's files hold all."""
CALL = 400
"""Characters of a tool call and of its result."""
ORDER = (Effect.BROKEN, Effect.FAILS_ANYWAY, Effect.UNDECIDED, None, Effect.FIXED)
"""What one looks for first; the rest follows."""


def answers_section(report: Report) -> str:
    """Return every question, those that fail first."""
    trials: dict[str, list[Trial]] = {}
    for one in report.trials:
        trials.setdefault(one.question, []).append(one)
    rows = sorted(report.rows, key=lambda row: (_rank(row), row.id))
    body = "".join(_question(row, trials[row.id], text_of(report, row)) for row in rows)
    return f"<section><h2>Questions and answers</h2>{body}</section>"


def text_of(report: Report, row: QuestionRow) -> str:
    """Return the question, empty where the run kept none."""
    kept = report.asked.get(row.id)
    return kept.text if kept else ""


def _rank(row: QuestionRow) -> int:
    return ORDER.index(row.effect) if row.effect in ORDER else len(ORDER)


def _question(row: QuestionRow, trials: list[Trial], text: str) -> str:
    counts = ", ".join(f"{arm.value} {tally.told}" for arm, tally in row.arms.items())
    tags = [row.effect.value] if row.effect else []
    tags += ["control"] * row.control
    shown = "".join(f'<span class="tag {_class(tag)}">{_lines(tag)}</span>' for tag in tags)
    asked = f"<p>{_lines(text)}</p>" if text else ""
    return (
        f'<details class="question"><summary><b>{_lines(row.id)}</b>{_lines(row.topic)} · '
        f"{counts}{shown}</summary>{asked}{''.join(_answers(trials))}</details>"
    )


def _answers(trials: list[Trial]) -> Iterator[str]:
    order = [*dict.fromkeys(one.arm for one in trials)]
    if len(trials) > ANSWERS:
        yield f"<p>The first {ANSWERS} of {len(trials)} answers.</p>"
    by_run = sorted(trials, key=lambda trial: (trial.run, order.index(trial.arm)))[:ANSWERS]
    for one in sorted(by_run, key=lambda trial: (order.index(trial.arm), trial.run)):
        grade = f'<span class="tag {one.grade.value}">{one.grade.value}</span>'
        why = one.why if one.grade is not Grade.PASS else one.graded_by
        lessons = f", {len(one.answer.recalled)} lessons" if one.answer.recalled else ""
        head = f"{one.arm.value}, run {one.run}{lessons}"
        yield f"<p>{_lines(head)}{grade} {_lines(why)}</p>"
        calls = [
            f"{call.tool}({_short(call.arguments, CALL)})"
            f"{' FAILED' * call.failed}: {_short(call.result, CALL)}"
            for call in one.answer.calls
        ]
        said = [*calls, _short(one.answer.text, ANSWER)]
        yield "".join(f"<pre>{_lines(text)}</pre>" for text in said if text)


def _short(text: str, most: int) -> str:
    # masked whole: a secret that is cut in two is no longer known as one
    return shorten(mask_through(text[: 4 * most]), most)


def _lines(text: str) -> str:
    """Return a text for HTML with its line breaks: masked, made visible, escaped."""
    masked = mask_through(text)
    return escape("\n".join(reveal(line) for line in masked.split("\n")))


def _class(tag: str) -> str:
    return escape(tag.replace(" ", "-"), quote=True)
