"""Counts in words; loads nothing, because every command does so."""

from __future__ import annotations


def many(count: object, noun: str) -> str:
    """Return a count with its noun, `? lines` where it could not be read."""
    return f"{'?' if count is None else count} {noun}{'' if count == 1 else 's'}"
