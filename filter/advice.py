"""Check what a lesson says: form, safety, and that its names and numbers were earned."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher

from lessons_loop.filter.models import TEXT_LIMIT, TRIGGER_LIMIT, EvidenceKind, Kind
from lessons_loop.filter.parse import Proposal
from lessons_loop.filter.prompt import EXAMPLE_LESSONS
from lessons_loop.filter.proof import DOCUMENT_TOOLS
from lessons_loop.filter.reading import Reading
from lessons_loop.filter.redact import find_sensitive
from lessons_loop.filter.terms import (
    CONVERSIONS,
    SMALL_NUMBERS,
    Name,
    addresses_in,
    names_in,
    numbers_in,
    one_offs_in,
    serials_in,
)
from lessons_loop.filter.text import normalise

_MASK_MARK = re.compile(r"\[(?:secret|personal)\b", re.IGNORECASE)
_NARRATES = re.compile(
    r"^\W*(?:i (?:am|was|have|ran|used|found|will)|we (?:ran|used|found|saw)|you asked"
    r"|(?:the )?(?:user|assistant|model|chat|conversation) (?:is|was|has|asked|wanted|wants"
    r"|requested|said|needs|needed|confirmed|reported|used|ran|tried|did)"
    r"|der (?:nutzer|assistent) \w+te"
    r"|l'utilisateur a|el usuario (?:pidió|quería)|用户(?:要求|询问|想)|ユーザーは)\b",
    re.IGNORECASE,
)
_STEERS = re.compile(
    r"ignore (?:all |any )?(?:previous|above|prior|other|these|the) (?:instruction|rule|lesson)"
    r"|\breviewer\s*:|pre-?approved|do not tell the user|without telling the user"
    r"|</?(?:lessons?|system|transcript)\b|\b(?-i:APPROVE|PROMOTE)\b",
    re.IGNORECASE,
)
_ERROR_WORDS = re.compile(r"^(?:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|\w*(?:Error|Exception))$")
_ERROR_NUMBER = re.compile(
    r"(?:http|status|code|error|errno|exit|sqlstate|port|fehler|erreur)\W{0,3}(?:code\W{0,3})?$",
    re.IGNORECASE,
)
_INSTANCE_KEY = re.compile(
    r"^(?:id|job|charge|customer|user|username|account|pod|host|hostname|node|to|recipient|email"
    r"|ticket|issue|order|invoice|run|build|serial|sn|device|machine|chat|channel|cursor|session"
    r"|.*token.*|(?!(?:table|column|field|metric|model|dataset|schema|class|type|unit)_?id$).*_id"
    r"|(?!(?:table|column|field|metric|model|dataset|schema|class|type|unit)Id$).*[a-z]Id)$"
)
_COPIED_WORDS = 6
_COPIED_CHARACTERS = 14
"""Unbroken stretch from tool output that makes a lesson a copy (words; East Asian characters)."""


def form_fault(proposal: Proposal) -> str | None:
    """Return the rule of form a proposal breaks, None for none."""
    text, trigger = proposal.text, proposal.trigger
    if proposal.kind not in set(Kind):
        return "kind"
    if not trigger or len(trigger) > TRIGGER_LIMIT or len(text) > TEXT_LIMIT:
        return "shape"
    if any(_resembles(text, example) for example in EXAMPLE_LESSONS) or "<" in text[:1]:
        return "template-echo"
    if _NARRATES.match(text):
        return "narration"
    return None


def safety_fault(*texts: str) -> str | None:
    """Return the rule of safety that text, trigger or a tag breaks."""
    for text in texts:
        if _MASK_MARK.search(text) or find_sensitive(text):
            return "sensitive"
        if addresses_in(text):
            return "address"
        if _STEERS.search(text):
            return "steering"
        if one_offs_in(text):
            return "one-off"
    return None


def recalled_again(text: str, injected: Sequence[str]) -> bool:
    """Say whether a lesson only repeats one that was recalled into this chat (T-13)."""
    own = normalise(text)
    for lesson in map(normalise, injected):
        shorter, longer = sorted((own, lesson), key=len)
        if shorter == longer or (len(shorter) >= 20 and shorter in longer):
            return True
        if set(own.split()) == set(lesson.split()):
            return True
    return False


def source_fault(proposal: Proposal, reading: Reading, kind: EvidenceKind) -> str | None:
    """Return the rule that names, numbers or wording of a lesson break."""
    text, trigger = proposal.text, proposal.trigger
    instances = set(_instance_values(reading))
    for part, symptoms in ((text, False), (trigger, True)):
        for name in names_in(part):
            if name.written.casefold() in instances or any(p in instances for p in name.pieces):
                return "one-off"
            if fault := _name_fault(name, reading, symptoms):
                return fault
        if fault := _number_fault(part, reading, instances, symptoms) or _serial_fault(
            part, reading
        ):
            return fault
    if _is_copied(text, reading):
        return "planted"
    failed = any(turn.failed for turn in reading.turns)
    if kind is EvidenceKind.TOOL_SUCCESS and not failed and _is_thin(text, reading):
        return "thin"
    return None


def good_tags(tags: Sequence[str], reading: Reading) -> tuple[str, ...]:
    """Return the tags that are short, safe and earned, at most eight."""
    instances = set(_instance_values(reading))
    return tuple(
        tag
        for tag in tags
        if len(tag) <= 40
        and len(tag.split()) <= 4
        and safety_fault(tag) is None
        and tag.casefold() not in instances
        and all(_name_fault(name, reading, True) is None for name in names_in(tag))
        and _number_fault(tag, reading, instances, False) is None
        and _serial_fault(tag, reading) is None
    )[:8]


def _resembles(text: str, example: str) -> bool:
    one, other = normalise(text), normalise(example)
    return one == other or SequenceMatcher(None, one, other, autojunk=False).ratio() >= 0.8


def _name_fault(name: Name, reading: Reading, symptoms: bool) -> str | None:
    own = [p for p in reading.where("user", "call")]
    if _stands(name, reading, own):
        return None
    prose = list(reading.where("assistant"))
    results = list(reading.where("result"))
    if not name.firm:
        known = [*prose, *(p for p in results if reading.turns[p].failed)]
        told = _stands(name, reading, results) and not _stands(name, reading, known)
        return "tool-only" if told else None
    if _stands(name, reading, results):
        failed = [p for p in results if reading.turns[p].failed]
        as_symptom = symptoms or _ERROR_WORDS.match(name.written)
        return None if as_symptom and _stands(name, reading, failed) else "tool-only"
    accepted = [p for p in prose if any(later > p for later in reading.proofs.acceptances)]
    return None if _stands(name, reading, accepted) else "invented"


def _stands(name: Name, reading: Reading, places: Sequence[int]) -> bool:
    """Say whether every piece of a name stands in these turns; `events_*` by its beginning."""
    return all(any(_has(reading.pieces[p], piece) for p in places) for piece in name.pieces)


def _has(pieces: frozenset[str], piece: str) -> bool:
    if piece in pieces:
        return True
    return piece.endswith("s") and piece[:-1] in pieces


def _number_fault(part: str, reading: Reading, instances: set[str], symptoms: bool) -> str | None:
    failed = [p for p in reading.where("result") if reading.turns[p].failed]
    for number in numbers_in(part):
        symptom = (
            symptoms and len(number) <= 4 and any(number in reading.numbers[p] for p in failed)
        )
        earned = number not in instances and (symptom or _number_earned(number, part, reading))
        if number not in SMALL_NUMBERS and not earned:
            return "one-off-number"
    return None


def _serial_fault(part: str, reading: Reading) -> str | None:
    """Refuse serials and tickets; a vendor's error number stands in a failed result."""
    failed = [reading.texts[p] for p in reading.where("result") if reading.turns[p].failed]
    known = all(any(serial in text for text in failed) for serial in serials_in(part))
    return None if known else "one-off"


def _number_earned(number: str, part: str, reading: Reading) -> bool:
    """Say whether a number was put in by user or call, not first given out by a result.

    A number of the assistant's counts when a result then tested it, or when it converts units.
    """
    first = next((p for p, found in enumerate(reading.numbers) if number in found), None)
    if first is None:
        return number in CONVERSIONS
    turn = reading.turns[first]
    if turn.role in ("user", "call"):
        return True
    if turn.role == "result":
        return turn.failed and _names_error(number, part)
    tested = any(result > first for result in reading.proofs.results)
    return number in CONVERSIONS or (tested and len(number) <= 4)


def _names_error(number: str, part: str) -> bool:
    place = part.find(number)
    named = _ERROR_NUMBER.search(part[max(0, place - 20) : place]) is not None
    return named or bool(re.fullmatch(r"[45]\d\d", number))


def _instance_values(reading: Reading) -> Iterator[str]:
    """Yield the values, case folded, that name one case: ids, jobs, cursors, accounts."""
    for place in reading.where("call", "result"):
        try:
            parsed = json.loads(reading.turns[place].text)
        except (ValueError, RecursionError):
            continue
        yield from _instances(parsed, "", 0)


def _instances(value: object, key: str, depth: int) -> Iterator[str]:
    if depth > 6:
        return
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _instances(inner, str(name), depth + 1)
    elif isinstance(value, list):
        for inner in value[:200]:
            yield from _instances(inner, key, depth + 1)
    elif _INSTANCE_KEY.match(key):
        if isinstance(value, int) and not isinstance(value, bool):
            yield str(value)
        elif isinstance(value, str) and _is_label(value, key):
            yield value.casefold()


def _is_label(value: str, key: str) -> bool:
    """Say whether a value names one case; under an `id` also schemas list their columns."""
    if key.casefold().endswith("id") and not any(map(str.isdigit, value)):
        return False
    plain = value.isalpha() and (value.islower() or value.istitle())
    return 3 <= len(value) <= 80 and not plain and not re.search(r"[\s/]", value)


def _is_copied(text: str, reading: Reading) -> bool:
    """Say whether a lesson's wording comes out of good tool output or documents (T-49)."""
    lesson = _plain_words(text)
    own = [_plain_words(reading.texts[p]) for p in reading.where("user", "call")]
    told = [
        _plain_words(reading.texts[p])
        for p in reading.where("result")
        if not _is_failure(reading, p)
    ]
    own_text = " ".join(" ".join(words) for words in own)
    told_text = " ".join(" ".join(words) for words in told)
    size = _COPIED_WORDS
    runs = [" ".join(lesson[at : at + size]) for at in range(len(lesson) - size + 1)]
    if any(f" {run} " in f" {told_text} " and run not in own_text for run in runs):
        return True
    only_told = set(lesson) & {w for words in told for w in words}
    only_told -= {w for words in own for w in words}
    long_words = [word for word in set(lesson) if len(word) >= 4]
    share = [word for word in only_told if len(word) >= 4]
    return len(share) >= 4 and len(share) * 2 > len(long_words)


def _is_failure(reading: Reading, place: int) -> bool:
    turn = reading.turns[place]
    return turn.failed and turn.tool not in DOCUMENT_TOOLS


def _plain_words(text: str) -> list[str]:
    """Return the words, case folded; East Asian text goes by single characters."""
    return re.findall(r"[぀-ヿ㐀-鿿가-힯]|[^\W_぀-ヿ㐀-鿿가-힯]+", text.casefold())


def _is_thin(text: str, reading: Reading) -> bool:
    """Say whether a lesson from one good call names nothing but the tool (`use X to do Y`)."""
    tools = {piece for turn in reading.turns for piece in re.split(r"\W+", turn.tool.casefold())}
    named = [name for name in names_in(text) if set(name.pieces) - tools]
    acronyms = [word for word in re.findall(r"\b[A-Z]{2,}[A-Z0-9]*\b", text) if len(word) < 12]
    digits = [number for number in numbers_in(text) if number not in SMALL_NUMBERS]
    return not (named or acronyms or digits)
