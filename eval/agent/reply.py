"""Read one chat completion: text, tool calls, why it ended, what it cost.

Covered: tool calls beside null content, arguments that are no text or several objects in
one, missing or repeated ids, thinking in the text, replies of thinking alone, errors inside
HTTP 200, odd usage. Not covered: more than one choice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lessons_loop.filter.endpoint import error_text
from lessons_loop.filter.errors import ModelError, UnreadableReply
from lessons_loop.filter.parse import strip_thinking
from lessons_loop.filter.text import scrub, shorten
from lessons_loop.filter.transcript import text_of

TOKENS_MOST = 2**53
SAID_ENDS = ("stop", "content_filter", "end_turn")
"""Reasons after which nothing said is an answer too: a user gets just that."""
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")


class Wanted(NamedTuple):
    """One tool call as the model wants it."""

    id: str
    name: str
    arguments: str


class Said(NamedTuple):
    """What one completion says."""

    text: str
    calls: tuple[Wanted, ...]
    model: str
    tokens_in: int
    tokens_out: int


def read_reply(reply: Mapping[str, Any], turn: int) -> Said:
    """Return what a completion says; raise ModelError, UnreadableReply with one line.

    `turn` makes up ids where the model gives none.
    """
    choices = reply.get("choices")
    first = choices[0] if isinstance(choices, Sequence) and choices else None
    if not isinstance(first, Mapping) or not isinstance(first.get("message"), Mapping):
        if detail := error_text(reply):
            raise ModelError(f"error in the reply: {detail}")
        raise UnreadableReply("the reply has no message")
    message = first["message"]
    text, calls = strip_thinking(text_of(message.get("content"))).strip(), calls_of(message, turn)
    if not text and not calls:
        _refuse_silence(first, message)
    model = reply.get("model")
    named = shorten(scrub(model), 200) if isinstance(model, str) else ""
    usage = reply.get("usage")
    spent = usage if isinstance(usage, Mapping) else {}
    tokens = (_count(spent.get(name)) for name in ("prompt_tokens", "completion_tokens"))
    return Said(text, calls, named, *tokens)


def _refuse_silence(choice: Mapping[str, Any], message: Mapping[str, Any]) -> None:
    """Raise UnreadableReply for thinking alone or a reply cut off: a matter of settings."""
    finish = choice.get("finish_reason")
    reason = shorten(scrub(finish), 40) if isinstance(finish, str) else "none"
    thought = any(message.get(name) for name in _THOUGHTS) or bool(message.get("content"))
    if thought or reason not in SAID_ENDS:
        raise UnreadableReply(
            f"empty reply, finish_reason {reason}: allow more tokens or switch thinking off"
        )


def calls_of(message: Mapping[str, Any], turn: int) -> tuple[Wanted, ...]:
    """Return the message's tool calls, ids made unique."""
    listed = message.get("tool_calls")
    found: list[Wanted] = []
    for call in listed if isinstance(listed, list) else []:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            continue
        name, told = scrub(str(function.get("name") or "")), str(call.get("id") or "")
        for arguments in split_objects(_as_text(function.get("arguments"))):
            taken = not told or any(one.id == told for one in found)
            ident = f"call_{turn}_{len(found)}" if taken else scrub(told)
            found.append(Wanted(ident, name, arguments))
    return tuple(found)


def split_objects(text: str) -> list[str]:
    """Return the JSON objects that stand one behind another, the text itself where they do not."""
    decoder, found, at = json.JSONDecoder(), [], 0
    try:
        while rest := text[at:].lstrip():
            start = len(text) - len(rest)
            at = decoder.raw_decode(text, start)[1]
            found.append(text[start:at])
    except (ValueError, RecursionError):
        return [text]
    return found or [text]


def _as_text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return scrub(arguments)
    return "" if arguments is None else json.dumps(arguments)


def _count(value: Any) -> int:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < TOKENS_MOST
    return value if good else 0
