"""Say whether the numbers of a lesson were earned, or came out of one case.

Earned are numbers of calls and of the user, conversions, limits and codes that errors name,
and round limits that an accepted answer explains.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from lessons_loop.filter.reading import Reading
from lessons_loop.filter.terms import (
    CONVERSIONS,
    SMALL_NUMBERS,
    measures_in,
    numbers_in,
    quantities_in,
)

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
    r"|predefinit\w*|predeterminad\w*|vorgabe\w*"
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
_VERSION_NAMED = re.compile(
    r"\b(\d+(?:\.\d+){0,2})(?:\+|\s?(?:以上|以降|及以上)"
    r"|\s(?:or|and) (?:later|newer|higher|above|up)\b"
    r"|\s(?:oder (?:neuer|höher)|et (?:plus|suivant\w*)|o superior)\b)"
    r"|\b(?:versions?|v|since|before|until|ab|seit|vor|depuis|desde)\s?v?"
    r"(\d+\.\d+(?:\.\d+)?)\b",
    re.IGNORECASE,
)
_ERROR_READ = 4000
"""Characters of an error in which a limit is looked for."""


def number_fault(
    part: str, reading: Reading, instances: Collection[str], symptoms: bool
) -> str | None:
    """Return why a number of a text may not stand there: it came out of this one case."""
    failed = [p for p in reading.where("result") if reading.turns[p].failed]
    for number in (*numbers_in(part), *measures_in(part)):
        symptom = symptoms and any(_is_symptom(number, p, reading) for p in failed)
        earned = number not in instances and (symptom or _number_earned(number, part, reading))
        if number not in SMALL_NUMBERS and not earned:
            return "one-off-number"
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
        return not _is_told_outcome(number, first, reading)
    if turn.role == "result":
        if not turn.failed and number in _LIMIT_NUMBERS:
            # a page size or cap, not a count of this one case
            return _names_limit(number, part) or _is_told_limit(number, reading)
        # A limit that an error named and a later call kept to is no value that came out.
        kept = any(number in reading.numbers[p] for p in reading.where("call") if p > first)
        named = _names_error(number, part) or _names_default(number, part)
        return turn.failed and (kept or named or _is_explained_limit(number, first, reading))
    tested = any(result > first for result in reading.proofs.results)
    told = first in reading.proofs.accepted and number in _versions_named(part)
    return number in CONVERSIONS or told or (tested and len(number) <= 4)


def _is_told_outcome(number: str, first: int, reading: Reading) -> bool:
    """Say whether a user only told what should come out, a long number that then did."""
    if len(number) < 5 or number in CONVERSIONS or number in _LIMIT_NUMBERS:
        return False
    called = any(number in reading.numbers[p] for p in reading.where("call"))
    later = (p for p in reading.where("result") if p > first and not reading.turns[p].failed)
    return not called and any(number in reading.numbers[p] for p in later)


def _versions_named(part: str) -> frozenset[str]:
    found = (one or other for one, other in _VERSION_NAMED.findall(part))
    return frozenset(quantity for written in found for quantity in quantities_in(written))


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
    words = (
        r"default\w*|standard\w*|défaut|defecto|padrão|predefinit\w*|predeterminad\w*|vorgabe\w*"
    )
    form = rf"\b(?:{words})\W+(?:\w+\W+){{0,2}}{written}(?!\w)"
    return re.search(form, part, re.IGNORECASE) is not None


def _names_limit(number: str, part: str) -> bool:
    forms = re.finditer(rf"(?<![\w.,]){_written(number)}(?!\w)", part)
    around = (part[max(0, found.start() - 40) : found.start() + 40] for found in forms)
    return any(_LIMIT_WORDS.search(stretch) for stretch in around)


def _is_told_limit(number: str, reading: Reading) -> bool:
    """Say whether the user, or an explanation he accepted, calls a number a limit."""
    places = {*reading.where("user"), *reading.proofs.accepted}
    return any(_names_limit(number, reading.texts[place]) for place in places)


def _is_explained_limit(number: str, place: int, reading: Reading) -> bool:
    """Say whether an error names its limit, and an explanation accepted after the cure does."""
    form = _ERROR_LIMIT.format(number=_written(number))
    limits = re.search(form, reading.texts[place][:_ERROR_READ], re.IGNORECASE)
    told = any(number in reading.numbers[p] for p in reading.proofs.accepted)
    return limits is not None and told and bool(reading.proofs.fixes)


def _written(number: str) -> str:
    """Return a pattern of a number's digits, with or without separators of thousands."""
    return r"[.,'’ ]?".join(number) if number.isdigit() else re.escape(number)
