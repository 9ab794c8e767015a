"""What `make bench` prints: one row per measured thing, with its spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Figure(NamedTuple):
    """One measured row."""

    name: str
    low: float
    median: float
    high: float
    """99th percentile; the largest where there are few runs."""
    runs: int
    limit: str = ""
    """What is wanted, in words."""
    unit: str = "ms"


def single(name: str, value: float, limit: str = "", unit: str = "ms", runs: int = 1) -> Figure:
    """Return one value that has no spread."""
    return Figure(name, value, value, value, runs, limit, unit)


def spread(
    name: str, values: Sequence[float], limit: str = "", unit: str = "ms", scale: float = 1.0
) -> Figure:
    """Return minimum, median and 99th percentile of the values times `scale`."""
    low, median, high = np.percentile(scale * np.array(values, float), [0, 50, 99])
    return Figure(name, float(low), float(median), float(high), len(values), limit, unit)


def milliseconds(name: str, seconds: Sequence[float], limit: str = "") -> Figure:
    """Return the spread of durations given in seconds."""
    return spread(name, seconds, limit, scale=1000.0)


def ratios(name: str, ours: Sequence[float], theirs: Sequence[float], limit: str = "") -> Figure:
    """Return the spread of ours through theirs, run by run: taken in turns, so noise hits both."""
    paired = [one / other for one, other in zip(ours, theirs, strict=True)]
    return spread(name, paired, limit, unit="times")
