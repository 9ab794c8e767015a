"""Find characters a reader cannot see, or takes for others, and make them visible.

Covered: format and control characters (bidi overrides, zero-width, tag
characters), private use, unassigned, blank-looking letters, variation selectors
out of place, stacks of combining marks, words mixing look-alike alphabets,
letters from the mathematical alphabets.
Not covered: look-alikes inside one alphabet (l and 1), and meaning.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks that print as nothing."""
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_JOINERS = "\u200c\u200d"
_JOINED_SCRIPTS = re.compile("[\u0600-\u08ff\u0900-\u0dff\u1780-\u17ff]")
"""Arabic, Indic and Khmer letters, where joiners are spelling."""
_WORD = re.compile(r"[^\W\d_]+")
_MARKS_IN_A_ROW = 4
_CYRILLIC_TWINS = frozenset("аеорсухіјѕԁһӏԛԝкмтвнАВЕКМНОРСТУХІЈЅԌ")
_GREEK_TWINS = frozenset("ονυρικτχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ")


class HiddenCharacter(NamedTuple):
    """One character that does not show what it is."""

    position: int
    code: str
    """Such as `U+202E`."""
    name: str


def find_hidden(text: str) -> tuple[HiddenCharacter, ...]:
    """Return the invisible or misplaced characters of `text`, in order."""
    return tuple(
        HiddenCharacter(position, code_point(letter), unicodedata.name(letter, "unnamed"))
        for position, letter in enumerate(text)
        if _is_hidden(text, position)
    )


def find_lookalikes(text: str) -> tuple[str, ...]:
    """Return the words spelled with letters that pass for those of another alphabet."""
    words = _WORD.findall(text)
    cyrillic = any(_only_cyrillic(word) and not set(word) <= _CYRILLIC_TWINS for word in words)
    return tuple(word for word in words if _mixes(word) or (not cyrillic and _poses(word, text)))


def code_point(letter: str) -> str:
    """Return a character's number as people write it."""
    return f"U+{ord(letter):04X}"


def reveal(text: str) -> str:
    """Return `text` with every hidden character written out as `<U+…>`."""
    hidden = {found.position: found.code for found in find_hidden(text)}
    return "".join(
        f"<{hidden[index]}>" if index in hidden else letter for index, letter in enumerate(text)
    )


def strip_hidden(text: str) -> str:
    """Return `text` without its hidden characters."""
    hidden = {found.position for found in find_hidden(text)}
    return "".join(letter for index, letter in enumerate(text) if index not in hidden)


def _is_hidden(text: str, position: int) -> bool:
    letter = text[position]
    if letter < "\x7f":
        return letter < " " and letter not in "\n\t"
    if letter in _BLANK:
        return True
    if letter in _JOINERS:
        return not _joins(text, position)
    if _SELECTORS.match(letter):
        return not _selects(text, position)
    category = unicodedata.category(letter)
    if category in ("Mn", "Me"):
        return _stacked(text, position)
    return category in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")


def _joins(text: str, position: int) -> bool:
    """Say whether a joiner stands between emoji, or inside a script that spells with it."""
    before, after = text[position - 1 : position], text[position + 1 : position + 2]
    emoji = bool(after) and unicodedata.category(after) in ("So", "Sm")
    base = before if before not in ("\ufe0f", "") else text[position - 2 : position - 1]
    if emoji and base and unicodedata.category(base) in ("So", "Sk", "Sm"):
        return text[position] == "\u200d"
    return bool(_JOINED_SCRIPTS.match(before) and (not after or _JOINED_SCRIPTS.match(after)))


def _selects(text: str, position: int) -> bool:
    """Say whether a variation selector follows something that has variants."""
    before = text[position - 1 : position]
    if not before:
        return False
    if text[position] in "\ufe0e\ufe0f":
        return unicodedata.category(before) in ("So", "Sm", "Po", "Nd", "Sk")
    return "\u3400" <= before <= "\u9fff" or "\U00020000" <= before <= "\U0003ffff"


def _stacked(text: str, position: int) -> bool:
    run = text[max(0, position - _MARKS_IN_A_ROW + 1) : position + 1]
    return len(run) == _MARKS_IN_A_ROW and all(
        unicodedata.category(mark) in ("Mn", "Me") for mark in run
    )


def _alphabets(word: str) -> set[str]:
    return {unicodedata.name(letter, "").split(" ")[0] for letter in word}


def _only_cyrillic(word: str) -> bool:
    return _alphabets(word) == {"CYRILLIC"}


def _mixes(word: str) -> bool:
    """Say whether a word mixes Latin with twins of its letters, or uses styled letters."""
    found = _alphabets(word)
    twins = set(word) & (_CYRILLIC_TWINS | _GREEK_TWINS)
    styled = "MATHEMATICAL" in found or "SQUARED" in found or "CHEROKEE" in found
    return styled or ("LATIN" in found and bool({"CYRILLIC", "GREEK"} & found) and bool(twins))


def _poses(word: str, text: str) -> bool:
    """Say whether a word of twins only stands in an otherwise Latin text."""
    twins = len(word) > 2 and (set(word) <= _CYRILLIC_TWINS or set(word) <= _GREEK_TWINS)
    return twins and any("LATIN" in _alphabets(other) for other in _WORD.findall(text))
