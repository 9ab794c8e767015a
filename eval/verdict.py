"""The four verdicts, from an interval of the lift and the exact p."""

from __future__ import annotations

MARGIN = 0.05
"""A lift within 5 points either way is no difference worth a lesson."""
ALPHA = 0.05


def verdict_of(low: float, high: float, p: float, margin: float = MARGIN) -> str:
    """Return helps, harmful, neutral or underpowered; both sides of the evidence must agree."""
    if low > 0 and p < ALPHA:
        return "helps"
    if high < 0 and p < ALPHA:
        return "harmful"
    if -margin <= low and high <= margin:
        return "neutral"
    return "underpowered"
