"""The four plots of a run's page: rates over runs, flips, topics, cost; each with its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from html import escape

from lessons_loop.eval.report.charts import (
    Cost,
    Moment,
    Move,
    Spot,
    costs,
    dumbbells,
    rates_over_runs,
    slopes,
)
from lessons_loop.eval.report.comparison import Report
from lessons_loop.eval.report.frame import plot_figure, told
from lessons_loop.eval.report.saying import bounds
from lessons_loop.eval.runs.history import HistoryLine
from lessons_loop.eval.showing import percent
from lessons_loop.eval.stats.arm_figures import ArmFigures
from lessons_loop.eval.stats.topics import topic_rows
from lessons_loop.eval.trials import Arm
from lessons_loop.promote.showing import plain

RUNS = 12
"""Earlier evaluations that are drawn."""
WAYS = (("better", "more pass"), ("worse", "fewer pass"), ("same", "unchanged"))
COSTS = (
    ("tokens in", "tokens_in", "{:,.0f}"),
    ("tokens out", "tokens_out", "{:,.0f}"),
    ("seconds", "seconds", "{:.2f}"),
    ("tool calls", "tool_calls", "{:.2f}"),
    ("failed tool calls", "failed_calls", "{:.2f}"),
    ("lessons", "recalled", "{:.2f}"),
)


def rates_plot(report: Report) -> str:
    """Return pass rates with their intervals: of earlier runs, then of this one."""
    before = [line for line in report.history if line.run != report.name][-RUNS:]
    moments = [*map(_moment, before), Moment("this run", tuple(_spots(report.arms)))]
    arms = {spot.kind: None for moment in moments for spot in moment.spots}
    rows = [
        (moment.label, spot.kind, percent(spot.at), bounds(spot.low, spot.high))
        for moment in moments
        for spot in moment.spots
    ]
    plot = rates_over_runs(moments, "pass rate by arm and run")
    title = f"Pass rate, 95 % {_legend((arm, arm) for arm in arms)}"
    return plot_figure(title, plot, ("run", "arm", "pass rate", "95 %"), rows)


def _moment(line: HistoryLine) -> Moment:
    arms = {Arm(name): one for name, one in line.arms.items() if name in set(Arm)}
    return Moment(f"{line.kind} {line.at[5:10]}", tuple(_spots(arms)))


def _spots(arms: dict[Arm, ArmFigures]) -> Iterator[Spot]:
    for arm, one in arms.items():
        if one.rate is not None:
            told = f"{arm.value}: {percent(one.rate)}, 95 %: {bounds(one.low, one.high)}"
            yield Spot(arm.value, told, one.rate, one.low, one.high)


def flips_plot(report: Report) -> str:
    """Return where questions went from off to on."""
    counts = Counter((pair.off, pair.on) for pair in report.pairs)
    moves = [
        Move("", f"{count} questions: {percent(off)} to {percent(on)}", off, on, count)
        for (off, on), count in sorted(counts.items())
    ]
    rows = [(percent(one.before), percent(one.after), one.questions) for one in moves]
    plot = slopes(moves, "questions from off to on", ("off", "on"))
    title = f"Questions, from off to on {_legend(WAYS)}"
    return plot_figure(title, plot, ("passes off", "passes on", "questions"), rows)


def topics_plot(report: Report) -> str:
    """Return the pass rate by topic, without lessons and with them."""
    topics = topic_rows(report.pairs)
    moves = [
        Move(
            plain(one.topic),
            f"{plain(one.topic)}: {percent(one.off)} to {percent(one.on)}, "
            f"{one.questions} questions",
            one.off,
            one.on,
        )
        for one in topics
    ]
    rows = [
        (one.topic, one.questions, percent(one.off), percent(one.on), one.fixed, one.broken)
        for one in topics
    ]
    head = ("topic", "questions", "off", "on", "fixed", "broken")
    title = "Topics: ring off, dot on; too few questions each for a verdict"
    return plot_figure(title, dumbbells(moves, "pass rate by topic"), head, rows)


def cost_plot(report: Report) -> str:
    """Return what an answer cost in each arm."""
    rows = [
        Cost(
            label,
            tuple(
                (arm.value, getattr(one, field), form.format(getattr(one, field)))
                for arm, one in report.arms.items()
            ),
        )
        for label, field, form in COSTS
    ]
    cells = [(row.label, *(told for _, _, told in row.values)) for row in rows]
    title = f"Cost per answer {_legend((arm.value, arm.value) for arm in report.arms)}"
    head = ("", *(arm.value for arm in report.arms))
    return plot_figure(title, costs(rows, "cost of an answer by arm"), head, cells)


def _legend(keys: Iterable[tuple[str, str]]) -> str:
    return "".join(
        f'<span class="key {escape(kind, quote=True)}">{told(name)}</span>' for kind, name in keys
    )
