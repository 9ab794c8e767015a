"""Check a proposed lesson against the transcript: code decides what proved it, not the model.

*That* it worked comes from a real tool result or the user's own words, cited by line.
*What* it advises comes from a call, the user's words, or advice of the assistant that the
user accepted afterwards and no tool output contains.
Covered: names, numbers, addresses, days, ids, copied tool output, secrets.
Not covered: whether plain words state the facts rightly, names of people; the gate and its
reviewer judge those.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from lessons_loop.filter.models import (
    EXCERPT_LIMIT,
    QUOTE_LIMIT,
    QUOTE_MIN,
    TAG_LENGTH,
    Evidence,
    EvidenceKind,
)
from lessons_loop.filter.parse import Proposal
from lessons_loop.filter.reading import Reading, cut_middle, speaker
from lessons_loop.filter.text import shorten


class Refusal(NamedTuple):
    """Why a proposal is dropped: the rule's name."""

    rule: str


class _Quoted(NamedTuple):
    place: int
    start: int
    end: int


def prove(proposal: Proposal, reading: Reading) -> Evidence | Refusal:
    """Return the evidence of a proposal, or the rule it breaks."""
    cited = _cited(proposal, reading)
    if not cited:
        return Refusal("no-lines")
    if _width(proposal.quote) < QUOTE_MIN:
        return Refusal("quote-short")
    quoted = _find_quote(proposal.quote, reading, cited)
    if quoted is None:
        return Refusal("quote")
    if reading.turns[quoted.place].role == "assistant":
        return Refusal("quote-source")
    kind = _proof_kind(cited, reading)
    if kind is None:
        return Refusal("unproven")
    return _evidence(kind, quoted, cited, reading)


def _cited(proposal: Proposal, reading: Reading) -> tuple[int, ...]:
    """Return the cited positions; a cited call brings its result; without lines the quote's."""
    count = len(reading.turns)
    places = {line - 1 for line in proposal.lines if 1 <= line <= count}
    if not proposal.lines:
        found = _find_quote(proposal.quote, reading, range(count))
        places = {found.place} if found else set()
    calls = reading.proofs.calls
    places |= {result for result, call in calls.items() if call in places}
    return tuple(sorted(places))


def _proof_kind(cited: Sequence[int], reading: Reading) -> EvidenceKind | None:
    proofs, places = reading.proofs, set(cited)
    confirmed = places & proofs.confirmations
    if places & proofs.corrections and (proofs.results or proofs.confirmations):
        return EvidenceKind.CONFIRMED_CORRECTION
    if not (places & proofs.results or (confirmed and (proofs.results or proofs.corrections))):
        return None
    if places & proofs.fixes or (confirmed and proofs.fixes):
        return EvidenceKind.CHANGED_CALL
    return EvidenceKind.TOOL_SUCCESS if proofs.results else EvidenceKind.CONFIRMED_CORRECTION


def _find_quote(quote: str, reading: Reading, places: Sequence[int]) -> _Quoted | None:
    """Return where a quote stands, spacing aside; assistant lines come last."""
    wanted = " ".join(quote.strip("\"'`“”„«»….").split())
    if not wanted:
        return None
    ordered = sorted(places, key=lambda place: reading.turns[place].role == "assistant")
    for place in ordered:
        if span := _find_spaced(wanted, reading.texts[place]):
            return _Quoted(place, *span)
    return None


def _find_spaced(wanted: str, text: str) -> tuple[int, int] | None:
    """Return the stretch of `text` that is `wanted` with other spacing.

    A pattern of words and spaces would need seconds for `a a a ...`, all chats waiting.
    """
    words = list(re.finditer(r"\S+", text))
    joined = " ".join(word.group() for word in words)
    found = joined.find(wanted)
    if found < 0:
        return None
    starts = list(accumulate((len(word.group()) + 1 for word in words), initial=0))
    first, last = (bisect_right(starts, at) - 1 for at in (found, found + len(wanted) - 1))
    start = words[first].start() + found - starts[first]
    return start, words[last].start() + found + len(wanted) - starts[last]


def _width(text: str) -> int:
    """Return the length with East Asian characters as three: they say that much more."""
    return sum(3 if ord(char) >= 0x2E80 else 1 for char in text.strip())


def _evidence(
    kind: EvidenceKind, quoted: _Quoted, cited: Sequence[int], reading: Reading
) -> Evidence | Refusal:
    quoted = _storable_quote(quoted, cited, reading)
    source = reading.texts[quoted.place]
    start, end = quoted.start, min(quoted.end, quoted.start + QUOTE_LIMIT)
    start, end = _widened(source, start, end)
    quote = source[start:end]
    if len(quote.strip()) < QUOTE_MIN:
        return Refusal("quote-short")
    excerpt = _excerpt(quoted.place, start, end, cited, reading)
    tools = {reading.turns[place].tool for place in cited if reading.turns[place].tool}
    named = tuple(sorted(shorten(" ".join(tool.split()), TAG_LENGTH) for tool in tools))[:16]
    return Evidence.build(kind=kind, quote=quote, excerpt=excerpt, tools=named)


def _widened(source: str, start: int, end: int) -> tuple[int, int]:
    """Return a stretch around a short quote that is long enough to be stored."""
    while len(source[start:end].strip()) < QUOTE_MIN and (start > 0 or end < len(source)):
        start, end = max(0, start - 1), min(len(source), end + 1)
    return start, end


def _storable_quote(quoted: _Quoted, cited: Sequence[int], reading: Reading) -> _Quoted:
    """Return the quote, or the start of a cited call or result where a line is too short.

    Some confirmations in dense scripts are whole remarks of fewer than the stored minimum.
    """
    if len(reading.texts[quoted.place].strip()) >= QUOTE_MIN:
        return quoted
    for place in cited:
        text = reading.texts[place]
        if reading.turns[place].role in ("call", "result") and len(text.strip()) >= QUOTE_MIN:
            return _Quoted(place, 0, min(len(text), 200))
    return quoted


def _excerpt(place: int, start: int, end: int, cited: Sequence[int], reading: Reading) -> str:
    """Return the cited lines within the limit, the quote whole among them."""
    heads = {at: f"[{at + 1}] {speaker(reading.turns[at])}: " for at in cited}
    fixed = len(heads[place]) + (end - start) + 40
    others = [at for at in cited if at != place][: (EXCERPT_LIMIT - fixed) // 60]
    room = EXCERPT_LIMIT - fixed - sum(len(heads[at]) + 1 for at in others)
    share = max(0, room) // (len(others) + 1)
    lines = {at: heads[at] + cut_middle(reading.texts[at], share) for at in others}
    lines[place] = heads[place] + _around(reading.texts[place], start, end, share)
    return "\n".join(lines[at] for at in sorted(lines))[:EXCERPT_LIMIT]


def _around(text: str, start: int, end: int, room: int) -> str:
    """Return the stretch with up to `room` characters of what stands around it."""
    left = max(0, start - room // 2)
    right = min(len(text), end + room - (start - left))
    return ("… " if left else "") + text[left:right] + (" …" if right < len(text) else "")
