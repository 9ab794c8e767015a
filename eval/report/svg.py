"""Small plots as SVG text: no library, no script, readable at 360 pixels.

Colours are classes, so that the page's style sheet can give light and dark ones. Every
text is escaped here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

WIDTH, HEIGHT = 360, 190
LEFT, RIGHT, TOP, BOTTOM = 38, 10, 12, 26
TICKS = 4
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)


class Bar(NamedTuple):
    """One bar: label, what a pointer is told, and its parts by class name, from below."""

    label: str
    told: str
    parts: tuple[tuple[str, float], ...]


class Dot(NamedTuple):
    """One row of a dot plot, shares from 0 to 1."""

    label: str
    told: str
    at: float
    low: float
    high: float


def ticks(top: float) -> list[float]:
    """Return round numbers from 0 to at least `top`."""
    if top <= 1:
        return [0.0, 1.0]
    rough = top / TICKS
    power = 10.0 ** floor(log10(rough))
    step = next(power * unit for unit in (1, 2, 5, 10) if power * unit >= rough)
    step = max(step, 1.0)
    return [step * n for n in range(ceil(top / step) + 1)]


def bars(rows: Sequence[Bar], name: str) -> str:
    """Return stacked bars; the labels of the first, the middle and the last are shown."""
    scale = ticks(max((sum(value for _, value in row.parts) for row in rows), default=0))
    room = WIDTH - LEFT - RIGHT
    each = room / max(len(rows), 1)
    wide = max(1.0, min(18.0, each * 0.8))
    drawn = [rules(scale)]
    for number, row in enumerate(rows):
        x, base = LEFT + each * (number + 0.5), 0.0
        parts = []
        for kind, value in row.parts:
            if value:
                y = _y(base + value, scale)
                parts.append(box(x - wide / 2, y, wide, _y(base, scale) - y, kind))
                base += value
        drawn.append(f"<g><title>{escape(row.told)}</title>{''.join(parts)}</g>")
    middle = LEFT + each / 2
    labels = [(middle + each * n, rows[n].label) for n in _telling(len(rows))]
    return drawing([*drawn, *_labels(labels)], name)


def steps(points: Sequence[tuple[str, float]], name: str) -> str:
    """Return a stepped line over days (ISO dates), from the first to the last."""
    known = [(date.fromisoformat(day).toordinal(), day, value) for day, value in points]
    scale = ticks(max((value for _, value in points), default=0))
    if not known:
        return drawing([rules(scale)], name)
    first, span = known[0][0], max(1, known[-1][0] - known[0][0])
    room = WIDTH - LEFT - RIGHT
    xs = [LEFT + room * (day - first) / span for day, _, _ in known]
    path, before = f"M{xs[0]:.1f} {_y(known[0][2], scale):.1f}", known[0][2]
    for x, (_, _, value) in zip(xs[1:], known[1:], strict=True):
        path += f"L{x:.1f} {_y(before, scale):.1f}L{x:.1f} {_y(value, scale):.1f}"
        before = value
    if len(known) == 1:
        path += f"L{LEFT + room} {_y(before, scale):.1f}"
    bottom = _y(0, scale)
    end = xs[-1] if len(known) > 1 else LEFT + room
    drawn = [
        rules(scale),
        f'<path class="area" d="{path}L{end:.1f} {bottom:.1f}L{LEFT} {bottom:.1f}Z"/>',
        f'<path class="line" d="{path}"/>',
    ]
    labels = [(xs[n], known[n][1]) for n in {0: 0, len(known) - 1: 0}]
    return drawing([*drawn, *_labels(labels)], name)


def dots(rows: Sequence[Dot], base: float | None, name: str) -> str:
    """Return shares with their bounds, one row each, and the base rate as a dashed line."""
    left, line = 78, 20
    height = TOP + line * max(len(rows), 1) + BOTTOM
    room = WIDTH - left - RIGHT - 8
    bottom = height - BOTTOM
    drawn = share_columns(left, room, bottom)
    if base is not None:
        x = left + room * base
        told = f"<title>base rate {base:.0%}</title>"
        drawn.append(f'<path class="base" d="M{x:.1f} {TOP}V{bottom}">{told}</path>')
    for number, row in enumerate(rows):
        y = TOP + line * (number + 0.5)
        low, high, at = (left + room * share for share in (row.low, row.high, row.at))
        drawn.append(
            f"<g><title>{escape(row.told)}</title>"
            f"{words(left - 8, y + 4, row.label, 'end')}"
            f'<path class="span" d="M{low:.1f} {y:.1f}H{high:.1f}"/>'
            f'<circle class="dot" cx="{at:.1f}" cy="{y:.1f}" r="4.5"/></g>'
        )
    return drawing(drawn, name, height)


def drawing(parts: Iterable[str], name: str, height: int = HEIGHT) -> str:
    """Return parts as one picture of WIDTH units; `name` is what a screen reader says."""
    label = escape(name, quote=True)
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">'
    return f"{head}{''.join(parts)}</svg>"


def rules(scale: Sequence[float]) -> str:
    """Return the horizontal lines of a scale with their numbers."""
    rows = []
    for value in scale:
        y = _y(value, scale)
        rows.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        rows.append(words(LEFT - 6, y + 4, f"{value:,.0f}", "end"))
    return "".join(rows)


def share_columns(left: float, room: float, bottom: float) -> list[str]:
    """Return the upright lines of a scale of shares with their numbers below."""
    rows = []
    for share in SHARES:
        x = left + room * share
        rows.append(f'<path class="grid" d="M{x:.1f} {TOP}V{bottom}"/>')
        rows.append(words(x, bottom + 15, f"{share:.0%}", "middle"))
    return rows


def _y(value: float, scale: Sequence[float]) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / scale[-1]


def _telling(count: int) -> list[int]:
    return sorted({0, count // 2, count - 1}) if count > 2 else list(range(count))


def _labels(labels: Sequence[tuple[float, str]]) -> list[str]:
    """Return labels below the axis; those at the ends stay inside."""
    found = []
    for x, label in labels:
        side = "start" if x < LEFT + 40 else "end" if x > WIDTH - RIGHT - 40 else "middle"
        at = LEFT if side == "start" else WIDTH - RIGHT if side == "end" else x
        found.append(words(at if len(labels) > 1 else x, HEIGHT - 8, label, side))
    return found


def box(x: float, y: float, width: float, height: float, kind: str) -> str:
    """Return a rectangle of a class."""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect class="{escape(kind, quote=True)}" {place}/>'


def words(x: float, y: float, text: str, anchor: str) -> str:
    """Return a text; `anchor` is start, middle or end."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
