"""Straight lines through measured sizes: what one more costs, and how far that can be trusted.

Two sizes give a line without a spread; from three on the spread is the largest distance of a
measured point from the line, in percent of the point.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lessons_loop.deploy.bench.figures import Figure, single

_SIZED = re.compile(r"(?P<what>.+), (?P<size>[\d,]+) (?P<of>lessons|events|waiting)\Z")


class Line(NamedTuple):
    """value = base + slope x size."""

    base: float
    slope: float
    spread: float
    """Percent; 0 where a line fits at once, as it does two sizes."""
    sizes: tuple[int, ...]

    def at(self, size: float) -> float:
        """Return the value at a size, never below 0."""
        return max(0.0, self.base + self.slope * size)


class Series(NamedTuple):
    """One measured thing at several sizes."""

    what: str
    of: str
    """lessons, events or waiting."""
    unit: str
    points: Mapping[int, float]

    def at(self, size: int) -> float:
        """Return what was measured there, else what the line says."""
        return self.points[size] if size in self.points else self.line().at(size)

    def line(self) -> Line:
        """Return the line of least squares, each point weighted by its value's size."""
        return fitted(list(self.points), list(self.points.values()))


def fitted(sizes: Sequence[int], values: Sequence[float]) -> Line:
    """Return the line with the least relative squares; one size gives a flat one.

    More never costs less and nothing never less than nothing: where noise says so, the line is
    flat at the largest value, or goes through 0.
    """
    many, cost = np.asarray(sizes, float), np.asarray(values, float)
    if len(set(sizes)) < 2:
        return Line(float(np.mean(cost)), 0.0, 0.0, tuple(sizes))
    weights = 1.0 / np.maximum(np.abs(cost), 1e-9)
    slope, base = np.polyfit(many, cost, 1, w=weights)
    if slope < 0:
        slope, base = 0.0, float(np.max(cost))
    elif base < 0:
        shares = many * weights
        slope, base = float(shares @ (cost * weights) / (shares @ shares)), 0.0
    spread = float(np.max(np.abs(base + slope * many - cost) * weights)) * 100
    told = spread if len(sizes) > 2 or spread > 1 else 0.0
    return Line(float(base), float(slope), told, tuple(sizes))


def series_of(figures: Iterable[Figure]) -> dict[str, Series]:
    """Return the sized figures by what they measure, with its unit of size: "load, server"."""
    found: dict[str, Series] = {}
    for figure in figures:
        if match := _SIZED.match(figure.name):
            what, size = match["what"], int(match["size"].replace(",", ""))
            one = found.setdefault(
                f"{what}, {match['of']}", Series(what, match["of"], figure.unit, {})
            )
            found[f"{what}, {match['of']}"] = one._replace(
                points={**one.points, size: figure.median}
            )
    return found


def slope_figures(figures: Iterable[Figure]) -> list[Figure]:
    """Return for each series what 1,000 more cost, with the spread of the line behind it."""
    found = []
    for one in series_of(figures).values():
        line = one.line()
        if len(one.points) > 1:
            near = f"line ± {line.spread:.0f} %" if line.spread else f"{len(one.points)} sizes"
            name = f"1,000 more {one.of}: {one.what}"
            found.append(single(name, 1_000 * line.slope, near, one.unit, len(one.points)))
    return found
