"""The figures of an answer, in whatever spelling: 1,234.5 · 1.234,5 · 1 234.5 · 1234.50 h.

Covered: English, German, Swiss, French and Indian grouping, decimal comma, minus signs, percent,
exponents, currency and units, small number words in English and German. No figures: what is
glued to letters (SN-004711, 12th, v2, 12-month), has leading zeros, stands in a date, a time,
a version or a query, a year behind "in" or "since", an id behind "SN" or "#".
Where a spelling has two readings ("1,234": English thousands or a German decimal), both count.
Not covered: fractions but ½, ¼, ¾, words above twenty, "k" and "million".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from lessons_loop.eval.grading.answer_text import one_spelling, shown_text
from lessons_loop.eval.grading.check_forms import Tolerance

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]{1,2000}`", re.DOTALL)
_QUERY = re.compile(r"\b(?:select|with|insert|update|delete|limit|where|between)\b", re.IGNORECASE)
_RAISED = re.compile("[⁰¹²³⁴-⁹₀-₉]+")
_PARTS = {"½": ".5", "¼": ".25", "¾": ".75"}
_PART = re.compile(r"(?P<whole>\d\s?)?(?P<part>[½¼¾])|\d*\s?[⅐-⅞]")
_TEX = re.compile(r"\{,\}|\\,")
_SPACED = re.compile("(?<=[0-9])[\u00a0\u2007\u2009\u200a\u202f](?=[0-9]{3}(?![0-9]))")
_MONTHS = (
    r"jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|märz|apr(?:il)?|(?-i:May|MAY)|mai|june?|juni|july?|juli"
    r"|aug(?:ust)?|sept?(?:ember)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?"
)
_DATES = re.compile(
    r"(?<![\w.,])(?:(?:\d{4}[-/]\d{1,2}(?:[-/]\d{1,2})?|\d{4}\.\d{1,2}\.\d{1,2})(?![\d,])"
    r"(?:[t ]\d{1,2}:\d{2}(?::\d{2})?)?"
    r"|\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d{2})(?![\d.,]*\d)"
    r"|\d{1,2}:\d{2}(?::\d{2})?(?:\.\d+)?"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.)?\s(?:of\s)?(?:{_MONTHS})\b\.?(?:,?\s\d{{4}}\b)?"
    rf"|(?:{_MONTHS})\b\.?\s(?:\d{{1,2}}(?:st|nd|rd|th)?\b(?![.,]\d)(?:,?\s\d{{4}}\b)?|\d{{4}}\b)"
    r"|\d{1,2}/\d{1,4}(?![\d/]))"
    r"|(?<![\w.,-])(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?![\w.,-]*\d)",
    re.IGNORECASE,
)
_YEARS = re.compile(
    r"(?<!\w)(?:in|since|during|year|years|fy|im|seit|jahr|jahre)(?:\sjahre?)?\s(?:19|20)\d\d"
    r"(?=\s*(?:[.,;:!?)]|$|\s(?:the|and|und|it|is|was|der|die|das|hat)\b))"
    r"|(?<!\w)(?:19|20)\d0s\b",
    re.IGNORECASE | re.MULTILINE,
)
_IDS = re.compile(
    r"(?<!\w)(?:s/?n|serial(?: number| no\.?)?|id|nr\.|seriennummer|#)[\s:=-]*\d+", re.I
)
_UNITS = (
    r"h|hrs?|hours?|std|d|min|s|sec|ms|km|m|cm|mm|kg|g|t|l|kwh|wh|kw|w|v|x|eur|usd|chf|gb|mb|kb"
    r"|pp|pct"
)
_GROUPED = (
    r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:\.\d{3})+(?:,\d+)?|\d{1,3}(?:[ '_]\d{3})+(?:[.,]\d+)?"
    r"|\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?"
)
_FIGURE = re.compile(
    rf"(?<![\w.,/])(?P<digits>{_GROUPED}|\d+(?:[.,]\d+)?|\.\d+)"
    rf"(?P<power>e[-+]?\d{{1,2}})?(?![.,/:'_-]?\d)(?P<unit>\s?[%‰]|(?:{_UNITS})\b)?"
    r"(?![\w])(?!-[a-z])",
    re.IGNORECASE,
)
_MINUS = re.compile(r"(?:(?:^|[\s(=:|~<>\[{'\"$€£])[+~$€£]?-\s?[$€£]?|\bminus\s)$", re.IGNORECASE)
_BULLET = re.compile(r"(?:^|\n)[ \t]*- $")
_NAMED = (
    *("zero", "one", "two zwei", "three drei", "four vier", "five fünf", "six sechs"),
    *("seven sieben", "eight acht", "nine neun", "ten zehn", "eleven elf", "twelve zwölf"),
    *("thirteen dreizehn", "fourteen vierzehn", "fifteen fünfzehn", "sixteen sechzehn"),
    *("seventeen siebzehn", "eighteen achtzehn", "nineteen neunzehn", "twenty zwanzig"),
)
_WORDS = {word: value for value, words in enumerate(_NAMED) for word in words.split()}
_WORD = re.compile(rf"(?<![\w-])(?:{'|'.join(_WORDS)})(?![\w-])", re.IGNORECASE)
_COUNTS_ONE = re.compile(r"\b(?:is|was|has|had|only|exactly|just|found|have|are)\s$", re.IGNORECASE)


class Figure(NamedTuple):
    """One figure of an answer."""

    written: str
    readings: tuple[Decimal, ...]


def figures_in(answer: str) -> tuple[Figure, ...]:
    """Return the figures of an answer, in order."""
    text = _without_other_numbers(shown_text(answer))
    found = [(match.start(), _figure(match, text)) for match in _FIGURE.finditer(text)]
    found += [(match.start(), _word(match, text)) for match in _WORD.finditer(text)]
    return tuple(figure for _, figure in sorted(found) if figure.readings)


def has_number(answer: str, number: Decimal, within: Tolerance | None = None) -> bool:
    """Say whether a figure of the answer is this number.

    Without a tolerance a whole number must be met exactly; one with decimals also by a figure
    with more of them that rounds to it.
    """
    readings = (reading for figure in figures_in(answer) for reading in figure.readings)
    return any(same_number(reading, number, within) for reading in readings)


def same_number(found: Decimal, wanted: Decimal, within: Tolerance | None = None) -> bool:
    """Say whether a figure is close enough to a number."""
    if within is not None:
        return abs(found - wanted) <= within.around(wanted)
    if found == wanted:
        return True
    exponent = wanted.as_tuple().exponent
    places = -exponent if isinstance(exponent, int) else 0
    return places > 0 and abs(found - wanted) <= Decimal(5).scaleb(-places - 1)


def _without_other_numbers(text: str) -> str:
    """Return a text in one spelling, blanked where digits are no figures."""
    text = _PART.sub(_decimal_part, _SPACED.sub(" ", _RAISED.sub(" ", text)))
    text = _CODE.sub(lambda code: " " if _QUERY.search(code.group()) else code.group(), text)
    plain = one_spelling(_TEX.sub(lambda tex: "," if "{" in tex.group() else " ", text))
    plain = plain.replace("...", " ").replace("..", " ")
    for other in (_DATES, _YEARS, _IDS):
        plain = other.sub(" § ", plain)
    return plain


def _decimal_part(part: re.Match[str]) -> str:
    """Write 12½ as 12.5; in one spelling it would read 121/2. Other fractions are no figures."""
    if part.group("part") is None:
        return " § "
    whole = part.group("whole")
    return (whole.strip() if whole else "0") + _PARTS[part.group("part")]


def _figure(match: re.Match[str], text: str) -> Figure:
    before = text[max(0, match.start() - 12) : match.start()]
    digits, power = match.group("digits"), match.group("power") or ""
    if re.match(r"0\d", digits) or re.search(r"\w-$", before):
        return Figure(match.group(), ())  # an id, or one end of a range
    negative = bool(_MINUS.search(before)) and not _BULLET.search(before)
    values = {_signed(value, power, negative) for value in _values(digits)}
    readings = {value for value in values if value is not None}
    unit = (match.group("unit") or "").strip()
    if unit in ("%", "‰"):
        readings |= {value.scaleb(-2 if unit == "%" else -3) for value in readings}
    return Figure(f"{'-' * negative}{match.group()}", tuple(sorted(readings)))


def _values(digits: str) -> Iterator[str]:
    """Yield the readings of written digits in Python's spelling."""
    bare = re.sub(r"[ '_]", "", digits)
    points, commas = bare.count("."), bare.count(",")
    if points and commas:
        decimal = max(".", ",", key=bare.rfind)
        yield bare.replace("," if decimal == "." else ".", "").replace(decimal, ".")
    elif points > 1 or commas > 1:
        yield bare.replace(".", "").replace(",", "")
    elif points or commas:
        yield bare.replace(",", ".")
        if re.fullmatch(r"[1-9]\d{0,2}[.,]\d{3}", bare):
            yield bare.replace(".", "").replace(",", "")
    else:
        yield bare


def _signed(written: str, power: str, negative: bool) -> Decimal | None:
    try:
        value = Decimal(written + power)
    except InvalidOperation:
        return None
    return -value if negative else value


def _word(match: re.Match[str], text: str) -> Figure:
    word = match.group().casefold()
    counted = word != "one" or _COUNTS_ONE.search(text[max(0, match.start() - 10) : match.start()])
    return Figure(match.group(), (Decimal(_WORDS[word]),) if counted else ())
