"""The four verdicts, from an interval of the lift and the exact p."""

from __future__ import annotations

MARGIN = 0.05
"""A lift within 5 points either way is no difference worth a lesson."""
ALPHA = 0.05


def verdict_of(low: float, high: float, p: float, net: int, margin: float = MARGIN) -> str:
    """Return helps, harmful, neutral or underpowered; both sides of the evidence must agree.

    `net` is fixed less broken: p alone says that they are uneven, not which way. A small gain
    on many questions beside ten broken and none fixed is no help.
    """
    if low > 0 and p < ALPHA and net > 0:
        return "helps"
    if high < 0 and p < ALPHA and net < 0:
        return "harmful"
    if -margin <= low and high <= margin:
        return "neutral"
    return "underpowered"
