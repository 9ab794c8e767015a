"""Read a feedback row of Open WebUI: whose thumb, on which answer, up or down, and why.

Covered: 0.12.4's rows, made by the page or by an API client; a row of another kind or
without a message is none. Of a comment only the references of lessons it names are kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from lessons_loop.filter.events import RATING_REASONS

KEYS_LIMIT = 64
"""Most lessons of one question."""
COMMENT_LIMIT = 10_000
"""Characters of a comment that are looked at."""
_REFERENCE = re.compile(r"(?<![\w-])([0-9a-f]{8})(?:[0-9a-f]{56})?(?![\w-])", re.IGNORECASE)
_THUMBS: dict[str, Literal["up", "down"]] = {"1": "up", "-1": "down"}


class Thumb(NamedTuple):
    """What one feedback row says; the identities are Open WebUI's own."""

    user: str
    """Who rated."""
    chat: str
    message: str
    outcome: Literal["up", "down", "none"]
    reason: str
    references: tuple[str, ...]


def read_thumb(row: Mapping[str, Any]) -> Thumb | None:
    """Return what a feedback row says, None for one that rates no message."""
    detail, meta = mapping_of(row.get("data")), mapping_of(row.get("meta"))
    user, message = row.get("user_id"), meta.get("message_id")
    if row.get("type") != "rating" or not all(isinstance(x, str) and x for x in (user, message)):
        return None
    reason = detail.get("reason")
    return Thumb(
        user=str(user),
        chat=str(meta.get("chat_id") or ""),
        message=str(message),
        outcome=_THUMBS.get(str(detail.get("rating")), "none"),
        reason=reason if isinstance(reason, str) and reason in RATING_REASONS else "",
        references=named_references(detail.get("comment")),
    )


def named_references(comment: object) -> tuple[str, ...]:
    """Return the lesson references a comment names, as the block prints them, each once."""
    if not isinstance(comment, str):
        return ()
    found = (name.lower() for name in _REFERENCE.findall(comment[:COMMENT_LIMIT]))
    return tuple(dict.fromkeys(found))[:KEYS_LIMIT]


def mapping_of(value: object) -> Mapping[str, Any]:
    """Return the value where it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}
