"""One finished answer, and by what flags it is left alone."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lessons_loop.filter.distill import skip_reason
from lessons_loop.filter.transcript import Turn, read_transcript
from lessons_loop.filter.valves import LessonsValves

CARRIER = "lessons_loop"
"""Key in `__metadata__`, the one object inlet, request and outlet of an answer share."""


class Exchange(NamedTuple):
    """One finished answer, as the outlet saw it."""

    messages: tuple[Any, ...]
    chat: str
    message: str
    user: str
    chat_model: str
    finish_reason: str | None
    recalled: Mapping[str, Sequence[str]]
    """Keys of the lessons used, by domain."""
    injected: tuple[str, ...]
    """Texts of the lessons injected."""
    shown: tuple[str, ...]
    """Their keys."""
    at: str
    """When it was finished, as stored: what is forgotten up to a later moment covers it."""
    internal: bool
    app: Any


def read_exchange(
    body: Mapping[str, Any],
    user: Mapping[str, Any] | None,
    metadata: Mapping[str, Any] | None,
    request: Any,
) -> Exchange:
    """Collect what learning needs; messages are copied one level deep."""
    meta = metadata or {}
    messages = body.get("messages")
    copied = tuple(
        dict(m) if isinstance(m, Mapping) else m
        for m in (messages if isinstance(messages, list) else [])
    )
    last = copied[-1] if copied and isinstance(copied[-1], dict) else {}
    finish = last.get("finish_reason") if last.get("role") == "assistant" else None
    found = meta.get(CARRIER)
    used = found if isinstance(found, Mapping) else {}
    return Exchange(
        messages=copied,
        chat=str(body.get("chat_id") or meta.get("chat_id") or ""),
        message=str(body.get("id") or last.get("id") or ""),
        user=str((user or {}).get("id") or meta.get("user_id") or ""),
        chat_model=str(body.get("model") or ""),
        finish_reason=finish if isinstance(finish, str) else None,
        recalled=used.get("keys") or {},
        injected=tuple(used.get("texts") or ()),
        shown=tuple(used.get("shown") or ()),
        at=utc_stamp(),
        internal=bool(meta.get("internal") or meta.get("automation_id")),
        app=app_of(request),
    )


def app_of(request: Any) -> Any:
    """Return the server a request is for, None for one made without."""
    try:
        return getattr(request, "app", None)
    except KeyError:  # Starlette looks it up in the request's scope
        return None


def private(exchange: Exchange, valves: LessonsValves, *, contribute: bool) -> str | None:
    """Return why this exchange leaves nothing behind at all, not even a usage event.

    A prefix with a colon marks every chat that is not saved (`temporary:`, `local:`, `channel:`).
    """
    if not contribute:
        return "opted-out"
    if exchange.internal or ":" in exchange.chat:
        return "private"
    if not exchange.chat and not valves.distill_api_chats:
        return "api-chat"
    if not exchange.message or not exchange.messages:
        return "no-answer"
    return None


def refusal(exchange: Exchange, valves: LessonsValves) -> str | None:
    """Return why this exchange is not even queued for distilling, by flags alone."""
    if not valves.distill_enabled or valves.distill_max_lessons == 0:
        return "off"
    if not valves.domain_names():
        return "no-domain"
    if not exchange.finish_reason:
        return "broken-answer"
    return None


def read_and_check(
    exchange: Exchange, valves: LessonsValves
) -> tuple[tuple[Turn, ...], str | None]:
    """Return the turns, and why no model is asked about them: blocking (5,000 messages: 3 s)."""
    turns = read_transcript(exchange.messages)
    reason = skip_reason(
        turns,
        finish_reason=exchange.finish_reason,
        min_reply_chars=valves.distill_min_reply_chars,
    )
    return turns, reason


def utc_stamp() -> str:
    """Return the time as stored: ISO 8601, UTC, seconds."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
