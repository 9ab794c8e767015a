"""Mask what the gate stores and shows, also where hidden characters split a secret."""

from __future__ import annotations

from functools import lru_cache

from lessons_loop.filter.redact import find_sensitive, mask
from lessons_loop.promote.lint.hidden import strip_hidden


@lru_cache(maxsize=2_048)  # a decision's payload says the same text up to ten times
def mask_through(text: str) -> str:
    """Return `text` masked; a secret that hidden characters split is masked without them."""
    bare = strip_hidden(text)
    return mask(bare) if bare != text and find_sensitive(bare) else mask(text)
