"""A run's report as lines of at most 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping

from lessons_loop.eval.report.comparison import Part, QuestionRow, Report
from lessons_loop.eval.report.saying import STAND_IN, bounds, few_topics, points, seen, sentence
from lessons_loop.eval.showing import percent
from lessons_loop.eval.stats.arm_figures import ArmFigures
from lessons_loop.eval.stats.compare import Comparison
from lessons_loop.eval.stats.pairs import Effect
from lessons_loop.eval.trials import Arm
from lessons_loop.filter.text import shorten
from lessons_loop.promote.counting import many
from lessons_loop.promote.showing import plain

WIDTH = 80
LABEL, CELL = 24, 14
"""Columns of the first and of each further column: four arms fit."""
ID_WIDTH = 40
FLIPS = 20
"""Flips of a kind that are listed; all are in --json and on the page."""
FIGURES: Mapping[str, Callable[[ArmFigures], str]] = {
    "passed": lambda one: f"{one.passed} of {one.judged}",
    "pass rate": lambda one: percent(one.rate),
    "  95 %": lambda one: bounds(one.low, one.high),
    "unjudged": lambda one: str(one.unjudged),
    "tokens in, per answer": lambda one: f"{one.tokens_in:,.0f}",
    "tokens out": lambda one: f"{one.tokens_out:,.0f}",
    "seconds": lambda one: f"{one.seconds:.2f}",
    "tool calls": lambda one: f"{one.tool_calls:.2f}",
    "failed tool calls": lambda one: f"{one.failed_calls:.2f}",
    "lessons": lambda one: f"{one.recalled:.2f}",
}


def report_lines(report: Report) -> list[str]:
    """Return the whole report."""
    return [plain(line).rstrip() for line in _parts(report)]


def _parts(report: Report) -> Iterator[str]:
    yield from _head(report)
    yield ""
    yield from figures_table(report.arms)
    yield ""
    yield from _verdicts(report)
    yield from _flips(report)
    yield from _controls(report)
    yield from _missing(report)
    if report.facts.stand_in:
        yield from _wrapped(STAND_IN)


def _head(report: Report) -> Iterator[str]:
    facts, proper = report.facts, report.proper
    topics = len({row.topic for row in proper})
    asked = f"{many(len(proper), 'question')} of {many(topics, 'topic')}, "
    asked += f"{many(facts.runs, 'run')}, {many(len(report.rows) - len(proper), 'control')}"
    yield from _wrapped(f"run {report.name}: {asked}, {facts.model or 'model not noted'}")
    if not report.finished:
        yield from _wrapped(
            f"UNFINISHED: {len(report.trials)} of {facts.expected} trials are made; "
            "go on with `lessons eval run --resume DIR`. So far:"
        )
    told = f"{facts.questions or 'questions'} {facts.question_set}"
    held = f"{facts.lessons} lessons {facts.lesson_set}, rev {facts.rev}"
    judge = f"; judge {facts.judge}" if facts.judge else ""
    yield from _wrapped(f"{told}; {held if facts.lesson_set else 'no lessons'}{judge}")


def figures_table(arms: Mapping[Arm, ArmFigures]) -> Iterator[str]:
    """Yield the arms side by side."""
    yield f"{'':<{LABEL}}" + "".join(f"{arm.value:>{CELL}}" for arm in arms)
    for name, told in FIGURES.items():
        yield f"{name:<{LABEL}}" + "".join(f"{told(one):>{CELL}}" for one in arms.values())


def _verdicts(report: Report) -> Iterator[str]:
    if not report.comparisons:
        yield "no verdict: one arm alone, nothing is compared"
    for number, found in enumerate(report.comparisons):
        label = "VERDICT" if number == 0 and report.primary else "also"
        yield from _wrapped(f"{label}: {sentence(found)}")
    for found in report.comparisons[:1]:
        yield from _wrapped(few_topics(found))
    for line in [losses(report), *map(part_line, report.parts())]:
        yield from _wrapped(line)
    if report.comparisons:
        yield from _wrapped(seen(report.smallest_lift))


def losses(report: Report) -> str:
    """Return what no mean may hide: questions lost in every run; empty where there are none."""
    lost = [row for row in report.flips(Effect.BROKEN) if row.pair and row.pair.consistent]
    if not lost:
        return ""
    count = f"LOST: {len(lost)} questions pass in every run without lessons"
    return f"{count} and fail in every run with them"


def part_line(part: Part) -> str:
    """Return the lift on a part of the questions."""
    between = f"95 %: {points(part.low)} to {points(part.high)}"
    return f"{many(part.questions, 'question')} {part.name}: {points(part.lift)} points ({between})"


def _flips(report: Report) -> Iterator[str]:
    found = report.primary
    if found is None:
        return
    yield from _wrapped(
        f"flips: {len(found.fixed)} fixed, {len(found.broken)} broken, "
        f"{found.unchanged} unchanged; {found.passes_anyway} of {found.questions} pass "
        "without lessons anyway"
    )
    for effect in (Effect.BROKEN, Effect.FIXED):
        yield from _listed(report.flips(effect), effect, report.facts.runs)


def how_sure(row: QuestionRow, runs: int) -> str:
    """Return on how many runs a flip rests."""
    if row.pair and row.pair.consistent:
        return "every run"
    return "one run" if runs == 1 else "some runs"


def _listed(rows: list[QuestionRow], effect: Effect, runs: int) -> Iterator[str]:
    for row in rows[:FLIPS]:
        off, on = row.arms[Arm.OFF].told, row.arms[Arm.ON].told
        sure = how_sure(row, runs)
        name = shorten(plain(row.id), ID_WIDTH)
        yield f"  {effect.value:<7} {name:<{ID_WIDTH}} {f'{off} to {on}':<14} {sure}"
    if len(rows) > FLIPS:
        yield f"  {effect.value:<7} and {len(rows) - FLIPS} more: see --json or --html"


def _controls(report: Report) -> Iterator[str]:
    for found in report.control_comparisons:
        yield from _wrapped(control_line(found))
        for name in found.broken:
            yield f"  broken  {shorten(plain(name), ID_WIDTH)}"


def control_line(found: Comparison) -> str:
    """Return what became of the questions lessons must not touch."""
    on, off = f"{found.on_arm.value} {percent(found.on.rate)}", found.off_arm.value
    flips = f"{len(found.fixed)} fixed, {len(found.broken)} broken, net {found.net:+d}"
    return f"{many(found.questions, 'control')}: {off} {percent(found.off.rate)}, {on}; {flips}"


def _missing(report: Report) -> Iterator[str]:
    if not report.unjudged:
        return
    left_out = report.comparisons[0].left_out if report.comparisons else 0
    yield from _wrapped(
        f"unjudged: {report.unjudged} of {len(report.trials)} trials, {report.outages} of them "
        f"outages; {many(left_out, 'question')} left out for want of a grade in an arm"
    )


def _wrapped(text: str) -> list[str]:
    # masked and made plain before it is folded: a secret must not be split over lines
    return textwrap.wrap(plain(text), WIDTH, subsequent_indent="  ", break_on_hyphens=False)
