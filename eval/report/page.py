"""A run's report as one HTML page: no script, nothing loaded, light and dark, wide and narrow.

Whatever a question, an answer or a tool says stays text: masked, hidden characters written
out, escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from lessons_loop.eval.report.answers import answers_section
from lessons_loop.eval.report.comparison import Report
from lessons_loop.eval.report.frame import page, table, told
from lessons_loop.eval.report.plots import cost_plot, flips_plot, rates_plot, topics_plot
from lessons_loop.eval.report.saying import STAND_IN, few_topics, seen, sentence
from lessons_loop.eval.report.text import FIGURES, control_line, how_sure, losses, part_line
from lessons_loop.eval.stats.pairs import Effect
from lessons_loop.eval.trials import Arm
from lessons_loop.promote.counting import many


def render_page(report: Report) -> str:
    """Return the whole page."""
    style = files("lessons_loop.eval.report").joinpath("report.css").read_text("utf-8")
    return page("Lessons evaluation", style, "".join(_parts(report)))


def _parts(report: Report) -> Iterator[str]:
    yield _header(report)
    yield from _notes(report)
    yield _verdict(report)
    yield figures_section(report)
    plots = (rates_plot(report), flips_plot(report), topics_plot(report), cost_plot(report))
    yield f'<div class="plots">{"".join(plots)}</div>'
    yield from _flips(report)
    yield from _controls(report)
    yield answers_section(report)


def _header(report: Report) -> str:
    facts, proper = report.facts, report.proper
    topics = len({row.topic for row in proper})
    asked = [
        f"{many(len(proper), 'question')} of {many(topics, 'topic')}, {many(facts.runs, 'run')}",
        many(len(report.rows) - len(proper), "control"),
        facts.model or "model not noted",
        f"{facts.lessons} lessons {facts.lesson_set}" if facts.lesson_set else "no lessons",
        f"question set {facts.questions} {facts.question_set}".strip(),
        f"judge {facts.judge}" if facts.judge else "",
        facts.begun,
    ]
    line = " · ".join(told(part) for part in asked if part)
    return f"<header><h1>Evaluation {told(report.name)}</h1><p>{line}</p></header>"


def _notes(report: Report) -> Iterator[str]:
    if not report.finished:
        made = f"{len(report.trials)} of {report.facts.expected} trials"
        yield _note(f"Unfinished: {made} are made. Everything below is so far.")
    if report.facts.stand_in:
        yield _note(STAND_IN)
    if report.unjudged:
        yield _note(
            f"{report.unjudged} of {len(report.trials)} trials have no grade, {report.outages} of "
            "them are outages: they count as missing, not as failed."
        )


def _note(text: str) -> str:
    return f'<p class="note">{told(text)}</p>'


def _verdict(report: Report) -> str:
    found = report.primary
    if found is None:
        said = "".join(f"<p>{told(sentence(one))}</p>" for one in report.comparisons)
        text = said or "<p>One arm alone: nothing is compared.</p>"
        return f'<section class="verdict"><b>No verdict on lessons</b>{text}</section>'
    first = f"<p>{told(sentence(found).partition('. ')[2])}</p>"
    more = [
        losses(report),
        few_topics(found),
        *map(part_line, report.parts()),
        seen(report.smallest_lift),
    ]
    more += [f"Also {sentence(one)}" for one in report.comparisons[1:]]
    rest = "".join(f"<p>{told(line)}</p>" for line in more if line)
    kind = escape(found.verdict, quote=True)
    return f'<section class="verdict {kind}"><b>{told(found.verdict)}</b>{first}{rest}</section>'


def figures_section(report: Report) -> str:
    """Return the arms side by side."""
    rows = [
        (name.strip(), *(told_by(one) for one in report.arms.values()))
        for name, told_by in FIGURES.items()
    ]
    shown = table(("", *(arm.value for arm in report.arms)), rows)
    return f'<section><h2>Arms side by side</h2><div class="card">{shown}</div></section>'


def _flips(report: Report) -> Iterator[str]:
    found = report.primary
    if found is None:
        return
    yield (
        f"<section><h2>Flips</h2><p>{len(found.fixed)} fixed, {len(found.broken)} broken, "
        f"{found.unchanged} unchanged; {found.passes_anyway} of {found.questions} pass without "
        "lessons anyway and say nothing about them.</p>"
    )
    rows = [cells for effect in (Effect.BROKEN, Effect.FIXED) for cells in _flipped(report, effect)]
    if rows:
        head = ("question", "became", "off", "on", "how sure")
        yield f'<div class="card">{table(head, rows)}</div>'
    yield "</section>"


def _flipped(report: Report, effect: Effect) -> Iterator[Sequence[str]]:
    for one in report.flips(effect):
        sure = how_sure(one, report.facts.runs)
        yield one.id, effect.value, one.arms[Arm.OFF].told, one.arms[Arm.ON].told, sure


def _controls(report: Report) -> Iterator[str]:
    if report.control_comparisons:
        lines = "".join(f"<p>{told(control_line(one))}</p>" for one in report.control_comparisons)
        yield f"<section><h2>Controls</h2>{lines}</section>"
