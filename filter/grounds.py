"""Say where the names, numbers and words of a lesson stand, and whether they may.

Earned are names and numbers of calls and of the user; what only a good result or a document
says is not. Error words may come from failed results.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from lessons_loop.filter.cues import says_more
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
    quantities_in,
    serials_in,
    slashed_in,
    versions_in,
)

_ERROR_WORDS = re.compile(r"^(?:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|\w*(?:Error|Exception))$")
_ERROR_NUMBER = re.compile(
    r"(?:http|status|code|error|errno|exit|sqlstate|port|fehler|erreur)\W{0,3}(?:code\W{0,3})?$",
    re.IGNORECASE,
)
_LIMIT_NUMBERS = frozenset(
    {"20", "25", "30", "50", "100", "150", "200", "250", "300", "500", "1000", "1024", "2000"}
    | {"512", "2048", "4096", "5000", "8192", "10000", "16384", "20000", "32767", "32768", "50000"}
    | {"65535", "65536", "100000", "1000000"}
)
"""Round numbers at which pages, counts and fields usually end."""
_LIMIT_WORDS = re.compile(
    r"\b(?:default\w*|only|limit\w*|max\w*|at most|no more than|up to|per page|page size|first"
    r"|stops? \w* ?at|capp?(?:s|ed)?|ceiling|hört|endet|begrenzt|gekappt|\w*grenze|plafonn\w+|tope"
    r"|höchstens|maximal|nur|standard\w*|par défaut|seulement|sólo|solo|por defecto|padrão)\b"
    r"|默认|最多|只|デフォルト|最大",
    re.IGNORECASE,
)
_ERROR_LIMIT = (
    r"(?:\b(?:only|limit\w*|max\w*|at most|no more than|not more than|up to|first|less than"
    r"|fewer than|greater than|larger than|longer than|höchstens|maximal|nur|seulement|sólo|solo)"
    r"\W+(?:(?!exceed)[^\W\d]+\W+){{0,3}}|\bbetween \d+ and ){number}(?!\w)"
    r"|(?<![\w.,]){number} (?:\w+ ){{0,2}}(?:max\w*|limit|allowed|or (?:less|fewer)|erlaubt)\b"
)
"""How an error tells the limit it keeps, with `number` as it is written."""
_EVERYDAY = frozenset({"sql", "api", "json", "http", "https", "url", "id", "ok", "csv", "cc"})
"""Abbreviations that make no lesson specific."""
_QUOTED_STRETCH = re.compile(r"(['\"`«„“‘「])([^\n'\"`«»„“”‘’「」]{8,200})['\"`»“”’」]")
_VERSION_NAMED = re.compile(
    r"\b(\d+(?:\.\d+){0,2})(?:\+|\s?(?:以上|以降|及以上)"
    r"|\s(?:or|and) (?:later|newer|higher|above|up)\b"
    r"|\s(?:oder (?:neuer|höher)|et (?:plus|suivant\w*)|o superior)\b)"
    r"|\b(?:versions?|v|since|before|until|ab|seit|vor|depuis|desde)\s?v?"
    r"(\d+\.\d+(?:\.\d+)?)\b",
    re.IGNORECASE,
)
_CLOCK_TIME = re.compile(r"\b\d{1,2}:\d{2}(?::\d{2})?\b")
_ERROR_READ = 4000
"""Characters of an error in which a limit is looked for."""
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
        as_symptom = symptoms or _ERROR_WORDS.match(name.written) or _is_explained(name, reading)
        return None if as_symptom and _stands(name, reading, failed) else "tool-only"
    return None if _stands(name, reading, _accepted(reading)) else "invented"


def _accepted(reading: Reading) -> list[int]:
    """Return the assistant's turns that the user accepted later."""
    accepts = reading.proofs.acceptances
    return [p for p in reading.where("assistant") if any(later > p for later in accepts)]


def _is_explained(name: Name, reading: Reading) -> bool:
    """Say whether a name of an error, and of no good result, is in an accepted explanation."""
    good = [p for p in reading.where("result") if not reading.turns[p].failed]
    told = _stands(name, reading, good)
    return bool(reading.proofs.fixes) and not told and _stands(name, reading, _accepted(reading))


def without_errors(text: str, reading: Reading) -> str:
    """Return a text without the error messages it quotes: they name a symptom, not advice."""
    failed = [p for p in reading.where("result") if _is_failure(reading, p)]
    told = " ".join(" ".join(reading.texts[p].split()) for p in failed)

    def unquoted(match: re.Match[str]) -> str:
        return " " if " ".join(match.group(2).split()) in told else match.group()

    return _QUOTED_STRETCH.sub(unquoted, text)


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
        symptom = symptoms and any(_is_symptom(number, p, reading) for p in failed)
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
        if not turn.failed and number in _LIMIT_NUMBERS:
            # a page size or cap, not a count of this one case
            return _names_limit(number, part) or _is_told_limit(number, reading)
        # A limit that an error named and a later call kept to is no value that came out.
        kept = any(number in reading.numbers[p] for p in reading.where("call") if p > first)
        named = _names_error(number, part) or _names_default(number, part)
        return turn.failed and (kept or named or _is_explained_limit(number, first, reading))
    tested = any(result > first for result in reading.proofs.results)
    told = first in _accepted(reading) and number in _versions_named(part)
    return number in CONVERSIONS or told or (tested and len(number) <= 4)


def _versions_named(part: str) -> frozenset[str]:
    found = (one or other for one, other in _VERSION_NAMED.findall(part))
    return frozenset(quantity for written in found for quantity in quantities_in(written))


def quotes_symptom(name: Name, trigger: str, reading: Reading) -> bool:
    """Say whether a trigger names it inside a run of words that a tool's result has."""
    words = _plain_words(trigger)
    own = set(_plain_words(name.written))
    results = [p for p in reading.where("result") if reading.turns[p].tool not in DOCUMENT_TOOLS]
    told = " ".join(" ".join(_plain_words(reading.texts[p])) for p in results)
    runs = (words[at : at + _SYMPTOM_WORDS] for at in range(len(words) - _SYMPTOM_WORDS + 1))
    return any(own <= set(run) and f" {' '.join(run)} " in f" {told} " for run in runs)


def _is_symptom(number: str, place: int, reading: Reading) -> bool:
    """Say whether a number of a failed result belongs to its error: short, or called a code."""
    if number not in reading.numbers[place]:
        return False
    return len(number) <= 4 or _names_error(number, reading.texts[place])


def _names_error(number: str, part: str) -> bool:
    place = part.find(number)
    named = _ERROR_NUMBER.search(part[max(0, place - 20) : place]) is not None
    return named or bool(re.fullmatch(r"[45]\d\d", number))


def _names_default(number: str, part: str) -> bool:
    """Say whether a text calls a number the default: what a setting is, not what came out."""
    written = re.escape(number).replace(r"\.", "[.,]")
    form = rf"\b(?:default\w*|standard\w*|défaut|defecto|padrão)\W+(?:\w+\W+){{0,2}}{written}(?!\w)"
    return re.search(form, part, re.IGNORECASE) is not None


def _names_limit(number: str, part: str) -> bool:
    forms = re.finditer(rf"(?<![\w.,]){_written(number)}(?!\w)", part)
    around = (part[max(0, found.start() - 40) : found.start() + 40] for found in forms)
    return any(_LIMIT_WORDS.search(stretch) for stretch in around)


def _is_told_limit(number: str, reading: Reading) -> bool:
    """Say whether the user, or an explanation he accepted, calls a number a limit."""
    places = {*reading.where("user"), *_accepted(reading)}
    return any(_names_limit(number, reading.texts[place]) for place in places)


def _is_explained_limit(number: str, place: int, reading: Reading) -> bool:
    """Say whether an error names its limit, and an explanation accepted after the cure does."""
    form = _ERROR_LIMIT.format(number=_written(number))
    limits = re.search(form, reading.texts[place][:_ERROR_READ], re.IGNORECASE)
    told = any(number in reading.numbers[p] for p in _accepted(reading))
    return limits is not None and told and bool(reading.proofs.fixes)


def _written(number: str) -> str:
    """Return a pattern of a number's digits, with or without separators of thousands."""
    return r"[.,'’ ]?".join(number) if number.isdigit() else re.escape(number)


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
    said = frozenset[str]().union(*(reading.pieces[p] for p in reading.where("user")))
    own = frozenset[str]().union(*(reading.pieces[p] for p in reading.own))
    if not reading.proofs.confirmations:
        own -= said  # nothing is learned from what the user knew, unless he says that it worked
    tools = {piece for turn in reading.turns for piece in pieces_of(turn.tool)}
    named = [piece for name in names_in(text) for piece in name.pieces]
    acronyms = [word.casefold() for word in re.findall(r"\b[A-Z][A-Z0-9]{1,10}\b", text)]
    untimed = _CLOCK_TIME.sub(" ", text)
    digits = [number for number in numbers_in(untimed) if number not in SMALL_NUMBERS]
    return not digits and not (own - tools - _EVERYDAY).intersection(named + acronyms)
