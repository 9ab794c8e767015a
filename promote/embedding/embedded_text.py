"""What of a text is sent to an embedding model."""

from __future__ import annotations

from collections.abc import Sequence

from lessons_loop.filter.embed import Purpose
from lessons_loop.filter.text import scrub

TEXT_CUT = 8000
"""Characters sent at most: longer texts are refused by many endpoints instead of cut."""


def prefixed(texts: Sequence[str], purpose: Purpose, prefixes: tuple[str, str]) -> list[str]:
    """Return the texts as a model gets them: prefix of their side, unreadable signs gone, cut."""
    prefix = prefixes[0 if purpose is Purpose.QUERY else 1]
    return [prefix + scrub(text)[:TEXT_CUT] for text in texts]
