"""Plots of an evaluation as SVG text, readable at 360 pixels; colours are classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from lessons_loop.eval.report.svg import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    SHARES,
    TOP,
    WIDTH,
    box,
    drawing,
    share_columns,
    words,
)

NAME = 118
"""Width of the labels on the left."""
LINE = 20
"""Height of a row."""
LONGEST = 18
"""Characters of a label that fit."""


class Spot(NamedTuple):
    """A pass rate with its bounds; `kind` is a class."""

    kind: str
    told: str
    at: float
    low: float
    high: float


class Moment(NamedTuple):
    """What one run found, by arm."""

    label: str
    spots: tuple[Spot, ...]


class Move(NamedTuple):
    """Questions or a topic between two rates."""

    label: str
    told: str
    before: float
    after: float
    questions: int = 1

    @property
    def kind(self) -> str:
        """Return the class of its direction."""
        difference = self.after - self.before
        return "same" if abs(difference) < 1e-9 else "better" if difference > 0 else "worse"


class Cost(NamedTuple):
    """One kind of cost: the value of each arm, by class."""

    label: str
    values: tuple[tuple[str, float, str], ...]
    """Class, value, and the value as people read it."""


def rates_over_runs(moments: Sequence[Moment], name: str) -> str:
    """Return pass rates with bounds over runs, arms of one run side by side, joined by arm."""
    room = WIDTH - LEFT - RIGHT
    each = room / max(len(moments), 1)
    drawn = [_share_rules()]
    paths: dict[str, str] = {}
    for number, moment in enumerate(moments):
        middle = LEFT + each * (number + 0.5)
        for place, spot in enumerate(moment.spots):
            # side by side, or bounds of one arm hide those of the other
            x = middle + (place - (len(moment.spots) - 1) / 2) * min(14.0, each / 4)
            drawn.append(_spot(x, spot))
            command = "L" if spot.kind in paths else "M"
            paths[spot.kind] = paths.get(spot.kind, "") + f"{command}{x:.1f} {_y(spot.at):.1f}"
    joined = [
        f'<path class="join {escape(kind, quote=True)}" d="{path}"/>'
        for kind, path in paths.items()
        if "L" in path
    ]
    labels = [
        words(LEFT + each * (n + 0.5), HEIGHT - 8, moments[n].label, "middle")
        for n in sorted({0, len(moments) - 1} if len(moments) > 4 else range(len(moments)))
    ]
    return drawing([*joined, *drawn, *labels], name)


def _spot(x: float, spot: Spot) -> str:
    kind = escape(spot.kind, quote=True)
    return (
        f"<g><title>{escape(spot.told)}</title>"
        f'<path class="bound {kind}" d="M{x:.1f} {_y(spot.low):.1f}V{_y(spot.high):.1f}"/>'
        f'<circle class="spot {kind}" cx="{x:.1f}" cy="{_y(spot.at):.1f}" r="4"/></g>'
    )


def _y(rate: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * rate


def _share_rules() -> str:
    return "".join(
        f'<path class="grid" d="M{LEFT} {_y(one):.1f}H{WIDTH - RIGHT}"/>'
        + words(LEFT - 6, _y(one) + 4, f"{one:.0%}", "end")
        for one in SHARES
    )


def slopes(moves: Sequence[Move], name: str, sides: tuple[str, str]) -> str:
    """Return lines from the rate before to the rate after, as thick as they are many."""
    height, left, right = 230, 64, WIDTH - 64
    most = max((move.questions for move in moves), default=1)
    bottom = height - BOTTOM

    def at(rate: float) -> float:
        return bottom - (bottom - 24) * rate

    drawn = [words(left, 12, sides[0], "middle"), words(right, 12, sides[1], "middle")]
    for x, anchor, step in ((left, "end", -8), (right, "start", 8)):
        drawn.append(f'<path class="grid" d="M{x} {at(0):.1f}V{at(1):.1f}"/>')
        drawn += [words(x + step, at(one) + 4, f"{one:.0%}", anchor) for one in SHARES]
    # unchanged ones first, so that flips lie on top
    for move in sorted(moves, key=lambda one: (one.kind != "same", one.questions)):
        wide = 1.2 + 9 * move.questions / most
        line = f"M{left} {at(move.before):.1f}L{right} {at(move.after):.1f}"
        drawn.append(
            f'<path class="slope {move.kind}" stroke-width="{wide:.1f}" d="{line}">'
            f"<title>{escape(move.told)}</title></path>"
        )
    return drawing(drawn, name, height)


def dumbbells(moves: Sequence[Move], name: str) -> str:
    """Return one row each: a ring where it was, a dot where it is, a line between."""
    room, height = WIDTH - NAME - RIGHT - 8, TOP + LINE * max(len(moves), 1) + BOTTOM
    bottom = height - BOTTOM
    drawn = share_columns(NAME, room, bottom)
    for number, move in enumerate(moves):
        y = TOP + LINE * (number + 0.5)
        start, end = NAME + room * move.before, NAME + room * move.after
        drawn.append(
            f"<g><title>{escape(move.told)}</title>{words(NAME - 8, y + 4, cut(move.label), 'end')}"
            f'<path class="way {move.kind}" d="M{start:.1f} {y:.1f}H{end:.1f}"/>'
            f'<circle class="ring" cx="{start:.1f}" cy="{y:.1f}" r="4"/>'
            f'<circle class="end {move.kind}" cx="{end:.1f}" cy="{y:.1f}" r="4.5"/></g>'
        )
    return drawing(drawn, name, height)


def costs(rows: Sequence[Cost], name: str) -> str:
    """Return bars by kind of cost; each kind has a scale of its own, so values are written out."""
    drawn, y = [], 4.0
    for row in rows:
        drawn.append(words(NAME - 8, y + 11, cut(row.label), "end"))
        drawn += _bars(row, y)
        y += 15 * len(row.values) + 9
    return drawing(drawn, name, round(y))


def _bars(row: Cost, top: float) -> Iterator[str]:
    most = max((value for _, value, _ in row.values), default=0.0) or 1.0
    room = WIDTH - NAME - RIGHT - 60
    for number, (kind, value, told) in enumerate(row.values):
        y = top + 15 * number
        yield box(NAME, y + 2, max(1.0, room * value / most), 11, f"fill {kind}")
        yield words(NAME + max(1.0, room * value / most) + 5, y + 11, told, "start")


def cut(label: str) -> str:
    """Return a label that fits."""
    return label if len(label) <= LONGEST else label[: LONGEST - 1] + "…"
