"""Tell whether a lesson is an old one, word for word, with further advice behind it.

Both can then be followed: the new one is broader, not against the old one.
Covered: the old words unchanged and first, then an instruction about something else.
Not covered: additions told in other words, or put in front or between; these stay related.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from lessons_loop.promote.lint.imperative import Mood, mood_of
from lessons_loop.promote.lint.language import word_set
from lessons_loop.promote.similar.wording import EXCEPTIONS, Word, has_condition, opposed, words_of

_TAKING_BACK = EXCEPTIONS | word_set(
    "however though although only until gone removed deprecated obsolete outdated replaced "
    "superseded refused rejected wrong broken fails failed stopped longer formerly previously "
    "aber jedoch nur bis mais cependant seulement pero sin embargo solo sólo hasta ma però mas "
    "porém maar echter alleen но однако только"
)
_INSTEAD = word_set("instead rather better stattdessen lieber plutôt mejor invece piuttosto liever")
_POINTING = word_set("it its this these those them they so es dies das ça cela ello esto ciò isso")
"""Words by which an addition speaks of the old advice."""


def extends(new: str, old: str) -> bool:
    """Say whether `new` is `old` plus advice that limits, replaces or outdoes nothing of it."""
    mine, theirs = words_of(new), words_of(old)
    head, tail = mine[: len(theirs)], mine[len(theirs) :]
    if not tail or [word.signed for word in head] != [word.signed for word in theirs]:
        return False
    rest = new[head[-1].end :].lstrip(" ,;.:!)]}'\"`’”–—-")
    if tail[0].clause == head[-1].clause or mood_of(rest) is not Mood.INSTRUCTION:
        return False
    return not (_takes_back(rest, head) or _turns(tail, head) or _competes(tail, head))


def _takes_back(rest: str, head: Sequence[Word]) -> bool:
    words = [word.casefold() for word in re.findall(r"[^\W\d_]+", rest)]
    if _INSTEAD & set(words) and not has_condition(rest):
        return True
    about_old = {word.form for word in words_of(rest)} & {word.form for word in head}
    strong = _TAKING_BACK & set(words)
    if strong - {"only", "until"}:
        return True
    return bool(strong) and bool(about_old or _POINTING & set(words))


def _turns(tail: Sequence[Word], head: Sequence[Word]) -> bool:
    """Say whether the addition forbids or reverses a word of the old advice."""
    forms = {word.form for word in head}
    if any(word.negated and word.form in forms for word in tail):
        return True
    return any(opposed(word.form, form) for word in tail for form in forms)


def _competes(tail: Sequence[Word], head: Sequence[Word]) -> bool:
    """Say whether a clause puts another thing in an old one's place: `set a to 1; set a to 2`."""
    old = [_split(clause) for clause in _clauses(head)]
    for plain, named in map(_split, _clauses(tail)):
        for old_plain, old_named in old:
            shared = len(plain & old_plain)
            if named - old_named and old_named - named and shared and 2 * shared >= len(plain):
                return True
    return False


def _clauses(words: Sequence[Word]) -> Iterator[list[Word]]:
    for _, run in groupby(words, lambda word: word.clause):
        yield list(run)


def _split(clause: Sequence[Word]) -> tuple[set[str], set[str]]:
    """Return the forms of ordinary words, and of numbers, names and identifiers."""
    plain = {word.form for word in clause if not word.hard}
    return plain, {word.form for word in clause if word.hard}
