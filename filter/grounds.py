"""Say where the names, numbers and words of a lesson stand, and whether they may.

Earned are names and numbers of calls and of the user; what only a good result or a document
says is not. Error words may come from failed results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from lessons_loop.filter.proof import DOCUMENT_TOOLS
from lessons_loop.filter.reading import Reading
from lessons_loop.filter.terms import (
    CONVERSIONS,
    SMALL_NUMBERS,
    Name,
    full_names_in,
    names_in,
    numbers_in,
    pieces_of,
    serials_in,
    slashed_in,
    versions_in,
)

_ERROR_WORDS = re.compile(r"^(?:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|\w*(?:Error|Exception))$")
_ERROR_NUMBER = re.compile(
    r"(?:http|status|code|error|errno|exit|sqlstate|port|fehler|erreur)\W{0,3}(?:code\W{0,3})?$",
    re.IGNORECASE,
)
_INSTANCE_KEY = re.compile(
    r"^(?:id|job|charge|customer|user|username|account|pod|host|hostname|node|to|recipient|email"
    r"|ticket|issue|order|invoice|run|build|serial|sn|device|machine|chat|channel|cursor|session"
    r"|assignee|owner|author|reporter|created_by|login|contact|realm|tenant"
    r"|(?i:.*token)|(?!(?:table|column|field|metric|model|dataset|schema|class|type|unit)_?id$).*_id"
    r"|(?!(?:table|column|field|metric|model|dataset|schema|class|type|unit)Id$).*[a-z]Id)$"
)
_CLASS_KEY = re.compile(
    r"^(?:model|engine|table|dataset|index|metric|measurement|field|column|type|kind|class|object"
    r"|resource|currency|unit|schema|topic|service|image|version)$"
)
"""Keys whose values name a sort of thing, also where an `id` repeats them."""
_PATH_INSTANCE = re.compile(
    r"/(?:realms|tenants|users|customers|accounts|orgs|organi[sz]ations|teams|workspaces|projects"
    r"|repos|issues|tickets|orders|invoices|channels|chats|devices|hosts|jobs|runs|builds|buckets"
    r"|sites|clusters)/([\w.@-]{3,80})/"
)
_FLAG_INSTANCE = re.compile(
    r"(?<![\w-])--(?:group|project|account|tenant|realm|customer|org|host|hostname|job|ticket|bucket"
    r"|instance|device|serial)[= ][\"']?([\w.@-]{3,80})"
)
_LIMIT_NUMBERS = frozenset(
    {"20", "25", "30", "50", "100", "150", "200", "250", "300", "500", "1000", "1024", "2000"}
)
_LIMIT_WORDS = re.compile(
    r"\b(?:default\w*|only|limit\w*|max\w*|at most|no more than|up to|per page|page size|first"
    r"|höchstens|maximal|nur|standard\w*|par défaut|seulement|sólo|solo|por defecto|padrão)\b"
    r"|默认|最多|只|デフォルト|最大",
    re.IGNORECASE,
)
_EVERYDAY = frozenset({"sql", "api", "json", "http", "https", "url", "id", "ok", "csv", "cc"})
"""Abbreviations that make no lesson specific."""
_COPIED_WORDS = 6
_COPIED_CHARACTERS = 14
"""Unbroken stretch of tool output that makes a lesson a copy: words, East Asian characters."""


def name_fault(name: Name, reading: Reading, symptoms: bool) -> str | None:
    """Return why a name may not stand there; `symptoms` lets the words of errors through."""
    own = reading.own
    if _stands(name, reading, own):
        return None
    prose = list(reading.where("assistant"))
    results = list(reading.where("result"))
    if not name.firm:
        good = [p for p in results if not reading.turns[p].failed and _stands(name, reading, [p])]
        before = [p for p in prose if p < good[0]] if good else prose
        known = [*before, *(p for p in results if reading.turns[p].failed)]
        told = _stands(name, reading, results) and not _stands(name, reading, known)
        product = name.written.isalpha() and len(name.written) >= 5
        return "tool-only" if told and not product else None
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


def number_fault(
    part: str, reading: Reading, instances: Collection[str], symptoms: bool
) -> str | None:
    """Return why a number of a text may not stand there: it came out of this one case."""
    failed = [p for p in reading.where("result") if reading.turns[p].failed]
    for number in numbers_in(part):
        symptom = (
            symptoms and len(number) <= 4 and any(number in reading.numbers[p] for p in failed)
        )
        earned = number not in instances and (symptom or _number_earned(number, part, reading))
        if number not in SMALL_NUMBERS and not earned:
            return "one-off-number"
    return None


def label_fault(part: str, reading: Reading) -> str | None:
    """Refuse serials, tickets, image tags, people; a vendor's error number stands in an error."""
    failed = [reading.texts[p] for p in reading.where("result") if reading.turns[p].failed]
    if not all(any(serial in text for text in failed) for serial in serials_in(part)):
        return "one-off"
    told = "\n".join(reading.texts[p] for p in reading.where("result"))
    own = "\n".join([*failed, *(reading.texts[p] for p in reading.own)])
    for version in versions_in(part):
        # Behind a colon it is an image's tag, not a version somebody asked about.
        if not re.search(rf"(?<![\w.:]){re.escape(version)}(?![\w.]\d)", own):
            return "one-off-number"
    if any(name in told and name not in own for name in full_names_in(part) + slashed_in(part)):
        return "tool-only"
    return None


def _number_earned(number: str, part: str, reading: Reading) -> bool:
    """Say whether a number was put in by user or call, not first given out by a result.

    A number of the assistant's counts when a result then tested it, or when it converts units.
    """
    first = next((p for p, found in enumerate(reading.numbers) if number in found), None)
    if first is None:
        return number in CONVERSIONS
    turn = reading.turns[first]
    if first in reading.own:
        return True
    if turn.role == "result":
        if not turn.failed and number in _LIMIT_NUMBERS and _names_limit(number, part):
            return True  # a page size, not a count of this one case
        # A limit that an error named and a later call kept to is no value that came out.
        kept = any(number in reading.numbers[p] for p in reading.where("call") if p > first)
        return turn.failed and (kept or _names_error(number, part))
    tested = any(result > first for result in reading.proofs.results)
    return number in CONVERSIONS or (tested and len(number) <= 4)


def _names_error(number: str, part: str) -> bool:
    place = part.find(number)
    named = _ERROR_NUMBER.search(part[max(0, place - 20) : place]) is not None
    return named or bool(re.fullmatch(r"[45]\d\d", number))


def _names_limit(number: str, part: str) -> bool:
    place = part.find(number)
    return _LIMIT_WORDS.search(part[max(0, place - 40) : place + 40]) is not None


def names_instance(part: str, instances: Collection[str]) -> bool:
    """Say whether a text names one of these single cases, given case folded."""
    folded = part.casefold()
    return any(
        re.search(rf"(?<![\w-]){re.escape(value)}(?![\w-])", folded)
        for value in instances
        if value in folded and not value.isdigit()
    )


def instance_values(reading: Reading) -> frozenset[str]:
    """Return the values, case folded, that name one case: ids, jobs, cursors, accounts."""
    found: set[str] = set()
    classes: set[str] = set()
    for place in reading.where("call", "result"):
        if reading.turns[place].role == "call":
            found |= set(_addressed_instances(reading.texts[place]))
        try:
            parsed = json.loads(reading.turns[place].text)
        except (ValueError, RecursionError):
            continue
        for key, value in _leaves(parsed, "", 0):
            if isinstance(value, str) and _CLASS_KEY.match(key):
                classes.add(value.casefold())
            elif _INSTANCE_KEY.match(key):
                found |= set(_instance(key, value))
    return frozenset(found - classes)


def _leaves(value: object, key: str, depth: int) -> Iterator[tuple[str, object]]:
    if depth > 6:
        return
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, str(name), depth + 1)
    elif isinstance(value, list):
        for inner in value[:200]:
            yield from _leaves(inner, key, depth + 1)
    else:
        yield key, value


def _instance(key: str, value: object) -> Iterator[str]:
    if isinstance(value, int) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, str) and _is_label(value, key):
        yield value.casefold()


def _addressed_instances(call: str) -> Iterator[str]:
    """Yield what a call's paths and options name: `/realms/NAME/users`, `--project NAME`."""
    for form in (_PATH_INSTANCE, _FLAG_INSTANCE):
        yield from (value.casefold() for value in form.findall(call) if _is_label(value, ""))


def _is_label(value: str, key: str) -> bool:
    """Say whether a value names one case; under an `id` also schemas list their columns."""
    if key.casefold().endswith("id") and not any(map(str.isdigit, value)):
        return False
    plain = value.isalpha() and (value.islower() or value.istitle())
    return 3 <= len(value) <= 80 and not plain and not re.search(r"[\s/]", value)


def is_copied(text: str, reading: Reading) -> bool:
    """Say whether a lesson's wording comes out of good tool output or documents (T-49)."""
    lesson = _plain_words(text)
    own = [_plain_words(reading.texts[p]) for p in reading.own]
    told = [_plain_words(reading.texts[p]) for p in reading.told if not _is_failure(reading, p)]
    own_text = " ".join(" ".join(words) for words in own)
    told_text = " ".join(" ".join(words) for words in told)
    dense = sum(len(word) == 1 for word in lesson) * 2 > len(lesson)
    size = _COPIED_CHARACTERS if dense else _COPIED_WORDS
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


def _is_worded(remark: str) -> bool:
    """Say whether a confirmation says more than `great`."""
    return len(_plain_words(remark)) >= 3


def is_thin(text: str, reading: Reading) -> bool:
    """Say whether a lesson from one good call names nothing of it but the tool (`use X for Y`)."""
    if any(_is_worded(reading.texts[p]) for p in reading.proofs.confirmations):
        return False
    said = frozenset[str]().union(*(reading.pieces[p] for p in reading.where("user")))
    own = frozenset[str]().union(*(reading.pieces[p] for p in reading.own))
    if not reading.proofs.confirmations:
        own -= said  # nothing is learned from what the user knew, unless he says that it worked
    tools = {piece for turn in reading.turns for piece in pieces_of(turn.tool)}
    named = [piece for name in names_in(text) for piece in name.pieces]
    acronyms = [word.casefold() for word in re.findall(r"\b[A-Z][A-Z0-9]{1,10}\b", text)]
    digits = [number for number in numbers_in(text) if number not in SMALL_NUMBERS]
    return not digits and not (own - tools - _EVERYDAY).intersection(named + acronyms)
