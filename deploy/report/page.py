"""The report as one HTML page: no script, nothing loaded, light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from importlib.resources import files

from lessons_loop.deploy.report.data import DomainReport, Rate, UseDay
from lessons_loop.deploy.report.proofs import HEAD, proof_cells, proof_tile
from lessons_loop.eval.report.frame import page, plot_figure, told
from lessons_loop.eval.report.svg import Bar, Dot, bars, dots, steps
from lessons_loop.promote.clock import iso, parse_iso
from lessons_loop.promote.runs.register import RunLine
from lessons_loop.promote.showing import plain
from lessons_loop.promote.waiting import aged

RUNS = 40
DAYS = 60
LESSONS = 15
OUTCOMES = ("promoted", "held", "rejected", "duplicates", "demoted")


def render_page(store: str, reports: Sequence[DomainReport], now: datetime) -> str:
    """Return the whole page; whatever a lesson says stays text."""
    style = files("lessons_loop.deploy.report").joinpath("report.css").read_text("utf-8")
    parts = [section(report, now) for report in reports]
    head = f"<header><h1>Lessons report</h1><p>{told(store)} · {iso(now)}</p></header>"
    body = "".join(parts) or "<p>This store has no domain yet.</p>"
    return page("Lessons report", style, head + body)


def section(report: DomainReport, now: datetime) -> str:
    """Return one domain: its numbers, then the plots."""
    plots = [growth_plot(report), runs_plot(report), rates_plot(report), use_plot(report)]
    plots += [proofs_table(report)]
    return (
        f"<section><h2>{told(report.summary.domain)}</h2>{tiles(report, now)}"
        f'<div class="plots">{"".join(plots)}</div></section>'
    )


def tiles(report: DomainReport, now: datetime) -> str:
    """Return the few numbers one looks for first."""
    summary = report.summary
    oldest = parse_iso(summary.oldest)
    age = f"oldest {aged(now, oldest)}" if summary.waiting and oldest else "nothing to decide"
    judged = summary.successes + summary.failures
    good = f"{report.base:.0%} went well" if report.base is not None else "no judgement yet"
    rows = [
        (str(summary.curated), "curated", f"{summary.used} of them used"),
        (str(summary.waiting), "waiting", age),
        (str(summary.hits), "uses", "answers given a lesson, per lesson"),
        (str(judged), "judged", good),
        (str(summary.archive.get("stale", 0)), "stale", "taken out by decay"),
        proof_tile(summary.proofs),
    ]
    return '<ul class="tiles">{}</ul>'.format(
        "".join(
            f"<li><b>{told(value)}</b> <span>{told(name)}</span><small>{told(note)}</small></li>"
            for value, name, note in rows
        )
    )


def figure(
    title: str, note: str, plot: str, head: Sequence[str], rows: Sequence[Sequence[object]]
) -> str:
    """Return a plot with its numbers, the note where there are none."""
    if not rows:
        return f"<figure><figcaption>{title}</figcaption><p>{told(note)}</p></figure>"
    return plot_figure(title, plot, head, rows)


def growth_plot(report: DomainReport) -> str:
    """Return how many lessons were curated over time."""
    points = [(day, float(count)) for day, count in report.growth if parse_iso(day)]
    rows = report.growth[::-1]
    plot = steps(points, "curated lessons over time")
    return figure("Curated lessons", "nothing was promoted yet", plot, ("day", "lessons"), rows)


def runs_plot(report: DomainReport) -> str:
    """Return what each run did."""
    runs = report.runs[-RUNS:]
    legend = "".join(f'<span class="key {name}">{name}</span>' for name in OUTCOMES)
    plot = bars([run_bar(line) for line in runs], "outcomes of each run")
    head = ("started", "mode", *OUTCOMES, "waiting", "note")
    rows = [run_cells(line) for line in reversed(runs)]
    return figure(f"Outcomes per run {legend}", "the gate has not run yet", plot, head, rows)


def run_bar(line: RunLine) -> Bar:
    """Return a run as a bar."""
    counts = [(name, float(getattr(line.outcomes, name))) for name in OUTCOMES]
    said = ", ".join(f"{value:.0f} {name}" for name, value in counts if value)
    return Bar(line.started[5:10], f"{line.started} {said or 'nothing'}", tuple(counts))


def run_cells(line: RunLine) -> list[object]:
    """Return a run as cells."""
    counts = [getattr(line.outcomes, name) for name in OUTCOMES]
    notes = ["preview"] * line.preview + ["paused"] * bool(line.paused) + [line.error]
    waiting = "?" if line.waiting is None else line.waiting
    return [line.started, line.mode, *counts, waiting, " ".join(filter(None, notes))]


def rates_plot(report: DomainReport) -> str:
    """Return how judged lessons did, the worst first."""
    shown = report.rates[:LESSONS]
    points = [Dot(one.record.key[:8], rate_told(one), one.rate, one.low, one.high) for one in shown]
    plot = dots(points, report.base, "share of judged uses that went well, by lesson")
    head = ("lesson", "good", "bad", "users", "share", "95 %", "text")
    rows = [rate_cells(one) for one in shown]
    more = len(report.rates) - len(shown)
    title = "Went well, by lesson; bounds of chance; dashed: all lessons"
    title += f" (the {LESSONS} worst of {len(report.rates)})" if more > 0 else ""
    return figure(title, "no use was judged yet", plot, head, rows)


def rate_told(one: Rate) -> str:
    """Return what a pointer is told of a lesson."""
    record = one.record
    return f"{record.successes} good, {record.failures} bad: {plain(record.text)}"


def rate_cells(one: Rate) -> list[object]:
    """Return a judged lesson as cells."""
    record = one.record
    bounds = f"{one.low:.0%} to {one.high:.0%}"
    counts = [record.successes, record.failures, record.judges]
    return [record.key[:12], *counts, f"{one.rate:.0%}", bounds, record.text]


def proofs_table(report: DomainReport) -> str:
    """Return what was measured about single lessons."""
    rows = [proof_cells(one) for one in report.summary.proofs.lessons]
    title = "Measured by leaving one out: pass rate on held-out questions"
    return figure(title, "no lesson was measured: lessons eval lesson --all", "", HEAD, rows)


def use_plot(report: DomainReport) -> str:
    """Return answers that were given lessons, by day."""
    days = [day for day in report.days if parse_iso(day.day)][-DAYS:]
    plot = bars([use_bar(day) for day in days], "answers with lessons by day")
    legend = "".join(
        f'<span class="key {kind}">{name}</span>'
        for kind, name in (("up", "thumb up"), ("down", "thumb down"), ("plain", "no thumb"))
    )
    rows = days[::-1]
    head = ("day", "answers", "thumbs up", "thumbs down")
    return figure(f"Answers with lessons {legend}", "no answer was counted yet", plot, head, rows)


def use_bar(day: UseDay) -> Bar:
    """Return a day as a bar."""
    rest = max(0, day.uses - day.up - day.down)
    told_day = f"{day.day}: {day.uses} answers, {day.up} up, {day.down} down"
    parts = (("up", float(day.up)), ("down", float(day.down)), ("plain", float(rest)))
    return Bar(day.day[5:10], told_day, parts)
