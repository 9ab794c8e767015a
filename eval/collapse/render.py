"""The collapse test for people: lines of 80 columns, and one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from lessons_loop.eval.report.charts import Moment, Spot, rates_over_runs
from lessons_loop.eval.report.frame import page, told
from lessons_loop.eval.report.saying import STAND_IN
from lessons_loop.eval.stats.intervals import wilson

LEAST_HARM = 5.0
"""Points the pass rate must fall without the gate; else a run shows nothing."""
ALLOWED = 1.5
"""Points it may fall with the gate."""
_SIDES = (("with_gate", "with the gate", "on"), ("without_gate", "without it", "off"))


def verdict(figures: Mapping[str, Any]) -> str:
    """Return what the figures say, one sentence each."""
    kept, lost = (figures[name]["change_points"] for name, _, _ in _SIDES)
    gate = "the gate" if figures["settings"]["proof"] else "the gate's rules alone"
    held = (
        f"{gate} held: {kept:+.1f} points from start to end"
        if kept >= -ALLOWED
        else f"{gate} did not hold: {kept:+.1f} points, {-ALLOWED} allowed"
    )
    if lost > -LEAST_HARM:
        return f"{held}; without it {lost:+.1f}: the bad advice did no harm, this shows nothing"
    return f"{held}; without it {lost:+.1f}"


def collapsed(figures: Mapping[str, Any]) -> bool:
    """Say whether the pass rate fell although the gate was there."""
    return bool(figures["with_gate"]["change_points"] < -ALLOWED)


def collapse_lines(figures: Mapping[str, Any]) -> Iterator[str]:
    """Yield the figures as people read them."""
    facts = figures["settings"]
    rest = f"{facts['held_out']} kept for the proof" if facts["proof"] else "no proof"
    yield (
        f"{facts['questions']} questions, {facts['taught']} of them chatted about by "
        f"{facts['users']} users, {rest}; error rate {facts['error_rate']:.0%}, "
        f"seed {facts['seed']}"
    )
    yield ""
    yield f"{'round':<6} {'with the gate':^36} {'without it':^24}"
    yield (
        f"{'':<6} {'pass':>7} {'lessons':>8} {'new':>4} {'held':>5} {'let in':>7} "
        f"  {'pass':>7} {'lessons':>8} {'new':>4}"
    )
    for one, other in zip(*(figures[name]["rounds"] for name, _, _ in _SIDES), strict=True):
        yield (
            f"{one['number']:<6} {one['rate']:>7.1%} {one['curated']:>8} "
            f"{one['candidates']:>4} {one['held']:>5} {one['promoted']:>7} "
            f"  {other['rate']:>7.1%} {other['curated']:>8} {other['candidates']:>4}"
        )
    yield ""
    yield verdict(figures)
    yield STAND_IN


def render_page(figures: Mapping[str, Any]) -> str:
    """Return the page: one plot with its table, no script, nothing loaded."""
    style = files("lessons_loop.eval.report").joinpath("report.css").read_text("utf-8")
    keys = "".join(f'<span class="key {kind}">{title}</span>' for _, title, kind in _SIDES)
    plot = rates_over_runs(_moments(figures), "pass rate per round, with the gate and without")
    intro = next(collapse_lines(figures))
    kind = "harmful" if collapsed(figures) else "neutral"
    return page(
        "Collapse test",
        style,
        f"<header><h1>Collapse test</h1><p>{told(intro)}</p></header>"
        f'<div class="verdict {kind}"><p>{told(verdict(figures))}</p></div>'
        f'<p class="note">{told(STAND_IN)}</p>'
        f"<figure><figcaption>Pass rate per round, 95 % {keys}</figcaption>{plot}</figure>"
        f"{_table(figures)}{_proofs(figures)}",
    )


def _moments(figures: Mapping[str, Any]) -> list[Moment]:
    rounds = zip(*(figures[name]["rounds"] for name, _, _ in _SIDES), strict=True)
    return [
        Moment(
            f"round {both[0]['number']}" if both[0]["number"] else "start",
            tuple(_spot(one, *side[1:]) for one, side in zip(both, _SIDES, strict=True)),
        )
        for both in rounds
    ]


def _spot(one: Mapping[str, Any], title: str, kind: str) -> Spot:
    bounds = wilson(one["passed"], one["judged"])
    told = f"{title}: {one['passed']} of {one['judged']} ({one['rate']:.1%})"
    return Spot(kind, told, one["rate"], bounds.low, bounds.high)


def _table(figures: Mapping[str, Any]) -> str:
    heads = ("round", "", "passed", "of", "lessons", "candidates", "held", "rejected", "let in")
    names = ("passed", "judged", "curated", "candidates", "held", "rejected", "promoted")
    rows = [
        (one["number"], title, *(one[name] for name in names))
        for side, title, _ in _SIDES
        for one in figures[side]["rounds"]
    ]
    return f'<h2>Rounds</h2><div class="card"><table>{_row(heads, "th")}{_rows(rows)}</table></div>'


def _rows(rows: Sequence[Sequence[object]]) -> str:
    return "".join(_row(row, "td") for row in rows)


def _row(cells: Sequence[object], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{told(cell)}</{tag}>" for cell in cells) + "</tr>"


def _proofs(figures: Mapping[str, Any]) -> str:
    said = [(one["number"], one["proof"]) for one in figures["with_gate"]["rounds"] if one["proof"]]
    lines = "".join(f"<li>Round {number}: {told(proof)}</li>" for number, proof in said)
    return f"<h2>What the proofs said</h2><ul>{lines}</ul>" if lines else ""
