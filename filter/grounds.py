"""Say where the names, numbers and words of a lesson stand, and whether they may.

Earned are names and numbers of calls and of the user; what only a good result or a document
says is not. Error words may come from failed results.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from lessons_loop.filter.cues import says_more
from lessons_loop.filter.people import listed_people
from lessons_loop.filter.proof import DOCUMENT_TOOLS
from lessons_loop.filter.reading import Reading
from lessons_loop.filter.terms import (
    SMALL_NUMBERS,
    Name,
    full_names_in,
    names_in,
    numbers_in,
    pieces_of,
    serials_in,
    slashed_in,
    statements_in,
    versions_in,
)

_ERROR_WORDS = re.compile(r"^(?:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|\w*(?:Error|Exception))$")
_ERROR_NAMED = r'"(?:error|code|type|reason|error_?(?:code|type|name)|exception)"\s{0,3}:\s{0,3}'
_LISTED = re.compile(
    r"\b(?:[Cc]olumns?|[Ff]ields?|[Pp]ropert(?:y|ies)|[Kk]eys?|Spalten?|Felder|Feld(?:ern?)?|champs?"
    r"|colonnes?|columnas?|campos?) ([a-z]\w{1,40}(?:, [a-z]\w{1,40}){0,6}"
    r"(?: (?:and|or|und|oder|et|ou|y|o|e) [a-z]\w{1,40})?)"
)
_EVERYDAY = frozenset(
    {"sql", "api", "json", "http", "https", "url", "id", "ok", "csv", "cc", "path", "file", "query"}
    | {"text", "name", "cmd", "command", "folder", "directory", "args"}
)
"""Abbreviations and names of parameters that make no lesson specific."""
_QUOTED_STRETCH = re.compile(r"(['\"`«„“‘「])([^\n'\"`«»„“”‘’「」]{8,200})['\"`»“”’」]")
_CLOCK_TIME = re.compile(r"\b\d{1,2}:\d{2}(?::\d{2})?\b")
_SYMPTOM_WORDS = 4
"""Unbroken stretch of a result that makes words of a trigger a quoted symptom."""
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
        as_symptom = symptoms or _is_error_word(name, reading) or _is_explained(name, reading)
        return None if as_symptom and _stands(name, reading, failed) else "tool-only"
    return None if _stands(name, reading, reading.proofs.accepted) else "invented"


def _is_error_word(name: Name, reading: Reading) -> bool:
    """Say whether a name is written as errors are, or is what a failed result calls its error."""
    if _ERROR_WORDS.match(name.written):
        return True
    failed = (reading.texts[p] for p in reading.where("result") if reading.turns[p].failed)
    called = re.compile(rf'{_ERROR_NAMED}"{re.escape(name.written)}"', re.IGNORECASE)
    return any(called.search(text) for text in failed)


def _is_explained(name: Name, reading: Reading) -> bool:
    """Say whether a name of an error, and of no good result, is in an accepted explanation."""
    good = [p for p in reading.where("result") if not reading.turns[p].failed]
    told = _stands(name, reading, good)
    return (
        bool(reading.proofs.fixes) and not told and _stands(name, reading, reading.proofs.accepted)
    )


def without_errors(text: str, reading: Reading) -> str:
    """Return a text without the error messages it quotes: they name a symptom, not advice."""
    failed = [p for p in reading.where("result") if _is_failure(reading, p)]
    told = " ".join(" ".join(reading.texts[p].split()) for p in failed)

    def unquoted(match: re.Match[str]) -> str:
        return " " if " ".join(match.group(2).split()) in told else match.group()

    return _QUOTED_STRETCH.sub(unquoted, text)


def wording_fault(text: str, reading: Reading) -> str | None:
    """Refuse statements nobody wrote, and plain words called fields that only a result has."""
    everything = frozenset[str]().union(*reading.pieces)
    if not all(everything.issuperset(pieces_of(found)) for found in statements_in(text)):
        return "invented"
    own = frozenset[str]().union(*(reading.pieces[p] for p in reading.own))
    known = own.union(*(reading.pieces[p] for p in reading.proofs.accepted))
    # "the column does not exist" tells an error: its words are no fields
    good = [p for p in reading.where("result") if not reading.turns[p].failed]
    told = frozenset[str]().union(*(reading.pieces[p] for p in good))
    listed = (word for found in _LISTED.findall(text) for word in re.findall(r"\w+", found))
    only_told = [word for word in listed if word in told and word not in known]
    return "tool-only" if only_told else None


def _stands(name: Name, reading: Reading, places: Sequence[int]) -> bool:
    """Say whether every piece of a name stands in these turns; `events_*` by its beginning."""
    return all(any(_has(reading.pieces[p], piece) for p in places) for piece in name.pieces)


def _has(pieces: frozenset[str], piece: str) -> bool:
    if piece in pieces:
        return True
    return piece.endswith("s") and piece[:-1] in pieces


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
    people = frozenset[str]().union(
        *(listed_people(reading.texts[p]) for p in reading.where("result"))
    )
    known = set(re.findall(r"\w+", own))
    return "tool-only" if (people - known).intersection(re.findall(r"\w+", part)) else None


def quotes_symptom(name: Name, trigger: str, reading: Reading) -> bool:
    """Say whether a trigger names it inside a run of words that a tool's result has."""
    words = _plain_words(trigger)
    own = set(_plain_words(name.written))
    results = [p for p in reading.where("result") if reading.turns[p].tool not in DOCUMENT_TOOLS]
    told = " ".join(" ".join(_plain_words(reading.texts[p])) for p in results)
    runs = (words[at : at + _SYMPTOM_WORDS] for at in range(len(words) - _SYMPTOM_WORDS + 1))
    return any(own <= set(run) and f" {' '.join(run)} " in f" {told} " for run in runs)


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


def is_thin(text: str, reading: Reading) -> bool:
    """Say whether a lesson from one good call names nothing of it but the tool (`use X for Y`)."""
    if any(says_more(reading.texts[p]) for p in reading.proofs.confirmations):
        return False
    asked = min(reading.where("call", "assistant"), default=0)  # what comes later may teach
    said = frozenset[str]().union(*reading.pieces[:asked])
    own = frozenset[str]().union(*(reading.pieces[p] for p in reading.own))
    tools = frozenset(piece for turn in reading.turns for piece in pieces_of(turn.tool))
    tools |= {part for piece in tools for part in piece.split("_")}
    calls = frozenset[str]().union(*(reading.pieces[p] for p in reading.where("call")))
    if not reading.proofs.confirmations or calls - tools - _EVERYDAY <= said:
        own -= said  # nothing is learned from what the user knew, unless he says that it worked
    if reading.proofs.confirmations and _names_command(text, reading, said | tools | _EVERYDAY):
        return False
    named = [piece for name in names_in(text) for piece in name.pieces]
    acronyms = [word.casefold() for word in re.findall(r"\b[A-Z][A-Z0-9]{1,10}\b", text)]
    untimed = _CLOCK_TIME.sub(" ", text)
    digits = [number for number in numbers_in(untimed) if number not in SMALL_NUMBERS]
    return not digits and not (own - tools - _EVERYDAY).intersection(named + acronyms)


_SHORT_OPTION = re.compile(r"(?<![\w-])-[A-Za-z]{1,8}(?![\w-])")


def _names_command(text: str, reading: Reading, known: frozenset[str]) -> bool:
    """Say whether a lesson has an option of a call, or two words of one that nobody said before."""
    calls = [reading.texts[p] for p in reading.where("call")]
    options = set(_SHORT_OPTION.findall(text))
    if any(options.intersection(_SHORT_OPTION.findall(call)) for call in calls):
        return True
    words = _plain_words(text)
    told = " | ".join(" ".join(_plain_words(call)) for call in calls)
    pairs = pairwise(words)
    return any(
        not known.issuperset(pair) and f" {' '.join(pair)} " in f" {told} " for pair in pairs
    )
