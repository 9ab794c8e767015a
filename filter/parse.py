"""Read a distiller's reply: nothing, or lessons as JSON; never free text.

Covered: thinking blocks, fences, prose around, BOM, trailing commas, a reply cut off in
the middle (what is complete is kept), other shapes of the same thing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lessons_loop.filter.errors import UnreadableReply
from lessons_loop.filter.text import scrub

_REPLY_READ_LIMIT = 60_000
"""Characters of a reply that are looked at: three lessons need about 3,000."""
_THINK_WORDS = r"(think|thinking|reason|reasoning|thought)"
_THINK_OPENS = re.compile(rf"<{_THINK_WORDS}\b[^>]{{0,200}}>", re.IGNORECASE)
_THINK_CLOSES = re.compile(rf"</{_THINK_WORDS}\s{{0,9}}>", re.IGNORECASE)
_NOTHING = re.compile(r"^[\s\"'`*_#>(:.-]*(?:answer:\s*)?nothing\b", re.IGNORECASE)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_LESSON_KEYS = ("lessons", "lesson", "items", "results", "candidates")
_TEXT_KEYS = ("text", "lesson", "instruction", "content")
_QUOTE_KEYS = ("quote", "evidence")


class Proposal(NamedTuple):
    """One lesson as the model put it; nothing of it is believed yet."""

    text: str
    kind: str
    trigger: str
    tags: tuple[str, ...]
    lines: tuple[int, ...]
    """Numbers of the cited transcript lines."""
    quote: str


@dataclass(frozen=True)
class ReplyContent:
    """What a reply held: proposals, how many were misshapen, whether it was cut off."""

    proposals: tuple[Proposal, ...] = ()
    misshapen: int = 0
    cut_off: bool = False


def parse_reply(text: str) -> ReplyContent:
    """Return what the reply proposes; raise UnreadableReply when it has no agreed form."""
    answer = strip_thinking(scrub(text)[:_REPLY_READ_LIMIT]).replace("\ufeff", "").strip()
    if not answer:
        raise UnreadableReply("empty reply")
    if _says_nothing(answer):
        return ReplyContent()
    best: ReplyContent | None = None
    for found, complete in _json_values(answer):
        content = _content_of(found, complete)
        if content is not None and (best is None or content.proposals):
            best = content
        if best is not None and best.proposals:
            break
    if best is None:
        raise UnreadableReply("the reply holds no lessons in JSON and does not say NOTHING")
    return best


def strip_thinking(text: str) -> str:
    """Return the reply without thinking before its JSON; one never closed takes all of it."""
    closes = _THINK_CLOSES.search(text)
    if closes and not _THINK_OPENS.search(text, 0, closes.start()):
        text = text[closes.end() :]  # servers swallow the opening tag
    while opens := _THINK_OPENS.search(text):
        if "{" in text[: opens.start()]:  # a tag inside the JSON is text
            break
        closes = _THINK_CLOSES.search(text, opens.end())
        text = text[: opens.start()] + (text[closes.end() :] if closes else "")
    return text


def _says_nothing(answer: str) -> bool:
    first = answer.split("\n", 1)[0]
    if "{" not in first and _NOTHING.match(answer):
        return True
    return len(answer) < 300 and "{" not in answer and re.search(r"\bNOTHING\b", answer) is not None


def _json_values(text: str) -> Iterator[tuple[object, bool]]:
    """Yield JSON containers in the text, outermost first; a cut-off last one is repaired."""
    decoder = json.JSONDecoder()
    position, tries = 0, 0
    while (start := _next_container(text, position)) >= 0 and tries < 40:
        tries += 1
        for candidate in (text[start:], _TRAILING_COMMA.sub(r"\1", text[start:])):
            try:
                value, length = decoder.raw_decode(candidate)
            except (ValueError, RecursionError):
                continue
            yield value, True
            position = start + length
            break
        else:
            if (repaired := _repair(text[start:])) is not None:
                yield repaired, False
                return
            position = start + 1


def _next_container(text: str, position: int) -> int:
    places = [place for mark in "{[" if (place := text.find(mark, position)) >= 0]
    return min(places, default=-1)


def _repair(text: str) -> object | None:
    """Close a cut-off value after its last complete object; None when it has none."""
    if text[:1] not in "{[" or not re.match(r"[{\[]\s*[\"{\[]", text):
        return None
    depth: list[str] = []
    in_string = escaped = False
    last: tuple[int, str] | None = None
    for place, char in enumerate(text):
        if in_string:
            in_string = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            in_string = True
        elif char in "{[":
            depth.append("}" if char == "{" else "]")
        elif char in "}]":
            if not depth or depth.pop() != char:
                break
            if char == "}":  # a list closed inside a lesson leaves that lesson half
                last = (place + 1, "".join(reversed(depth)))
    return _closed(text, last) if last else None


def _closed(text: str, last: tuple[int, str]) -> object | None:
    closed = _TRAILING_COMMA.sub(r"\1", text[: last[0]] + last[1])
    try:
        value: object = json.loads(closed)
    except (ValueError, RecursionError):
        return None
    return value


def _content_of(found: object, complete: bool) -> ReplyContent | None:
    """Return the lessons in one JSON value; None when it is about something else."""
    entries = _entries_of(found)
    if entries is None:
        return None
    proposals = [_proposal_of(entry) for entry in entries]
    good = tuple(proposal for proposal in proposals if proposal is not None)
    return ReplyContent(good, len(proposals) - len(good), not complete)


def _entries_of(found: object) -> list[object] | None:
    if isinstance(found, list):
        return found if all(not isinstance(entry, int | float) for entry in found) else None
    if not isinstance(found, Mapping):
        return None
    for key in _LESSON_KEYS:
        if key in found:
            inner = found[key]
            if isinstance(inner, str):
                return [found]
            if inner is None:
                return []
            return list(inner) if isinstance(inner, list) else [inner]
    if isinstance(found.get("text"), str):
        return [found]
    if any(isinstance(value, str) and _NOTHING.fullmatch(value) for value in found.values()):
        return []
    wrapped = [_entries_of(value) for value in found.values() if isinstance(value, Mapping)]
    return next((entries for entries in wrapped if entries is not None), None)


def _proposal_of(entry: object) -> Proposal | None:
    if not isinstance(entry, Mapping):
        return None
    text, quote = _first_text(entry, _TEXT_KEYS), _first_text(entry, _QUOTE_KEYS)
    if not text or not quote:
        return None
    return Proposal(
        text=" ".join(text.split()),
        kind=_first_text(entry, ("kind", "type")).casefold().replace("_", "-"),
        trigger=" ".join(_first_text(entry, ("trigger",)).split()),
        tags=_tags_of(entry.get("tags")),
        lines=_lines_of(entry.get("lines", entry.get("line"))),
        quote=quote,
    )


def _first_text(entry: Mapping[str, object], keys: tuple[str, ...]) -> str:
    for key in keys:
        value = entry.get(key)
        if isinstance(value, str) and value.strip():
            return value.strip()
    return ""


def _tags_of(value: object) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    tags = [" ".join(word.split()) for word in words if isinstance(word, str)]
    return tuple(dict.fromkeys(tag for tag in tags if tag))


def _lines_of(value: object) -> tuple[int, ...]:
    """Return line numbers, also from strings like `[3]` or `L3`."""
    values = value if isinstance(value, list) else [value]
    numbers: list[int] = []
    for entry in values:
        if isinstance(entry, bool):
            continue
        if isinstance(entry, int):
            numbers.append(entry)
        elif isinstance(entry, str):
            numbers += [int(digits) for digits in re.findall(r"\d{1,5}", entry)]
    return tuple(dict.fromkeys(numbers))
