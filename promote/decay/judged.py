"""What a thumb, or a tool's result, says about the lessons of one answer: pure."""

from __future__ import annotations

from lessons_loop.promote.decay.uses import Use

STYLE_REASONS = frozenset(("too_verbose", "dont_like_the_style", "being_lazy"))
"""About how the answer reads, not about what the lessons said."""
_TOOLS = {"ok": True, "failed": False}


def judged(use: Use, *, by_tools: bool) -> dict[str, bool]:
    """Return which lessons were judged, and whether it went well.

    A thumb outranks tools, judges all lessons of the answer, or those its comment named;
    for a matter of style it judges none, as if it were not there.
    """
    if use.rating and use.rating_reason not in STYLE_REASONS:
        return dict.fromkeys(use.rated_keys or use.keys, use.rating == "up")
    if by_tools and use.tools in _TOOLS:
        return dict.fromkeys(use.keys, _TOOLS[use.tools])
    return {}
