"""Tell whether two lessons about the same thing cannot both be followed.

A negation contradicts only what the other lesson advises: forbidding a way that the
other one does not take, or that it names while explaining why, is none.
Covered: advised here and forbidden or gone there, another number, name or identifier
in the same place, opposite words, the same words in another order.
Not covered: contradictions that need knowledge of the subject.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from lessons_loop.promote.lint.imperative import Mood, mood_of
from lessons_loop.promote.lint.language import word_set
from lessons_loop.promote.similar.wording import (
    CONDITIONS,
    TURNING,
    Word,
    is_identifier,
    opposed,
    words_of,
)

_LINKING = word_set("or in on from to up out until")
_BETWEEN = " ,;.:!)]}'\"`’”–—-"
LONGEST_SWAP = 3
"""Words that may stand in one place of either text and still be one thing for another."""
LEAST_ORDER = 4
"""Words an order has to have before one exchanged word makes it another one."""
_BOUND = re.compile(rf"\b(?:{'|'.join(sorted(CONDITIONS - {'where'}))})\b", re.IGNORECASE)
"""Without `where`: in a query it picks rows."""
_QUALIFIED = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+")
_GONE = re.compile(
    r"[`'\"]?(\S+?)[`'\"]? (?:"
    r"(?:is|are|was|were|has been|have been) (?:now |since )?"
    r"(?:gone|removed|rejected|refused|deprecated|obsolete|unsupported|replaced)"
    r"|(?:is|are) no longer (?:supported|accepted|available|used|there)"
    r"|(?:no longer|does not|do not) (?:exists?|works?)"
    r"|(?:now )?(?:answers?|returns?|gives|gets|fails with) (?:with )?(?:an? )?(?:HTTP )?4\d\d"
    r")\b",
    re.IGNORECASE,
)
"""What is told to be out of use: nobody may advise it."""


class _Stance(NamedTuple):
    words: tuple[Word, ...]
    advised: frozenset[str]
    """Forms."""
    forbidden: tuple[frozenset[str], ...]
    """Forms of each negated phrase."""
    bans: tuple[frozenset[str], ...]
    """Those of them that order or tell it, and do not only explain."""
    hard: frozenset[str]


def contradicts(new: str, old: str) -> bool:
    """Say whether one text advises what the other forbids, or puts another thing in its place."""
    mine, theirs = _stance(new), _stance(old)
    if _forbids(mine, theirs) or _forbids(theirs, mine):
        return True
    return (
        _opposes(mine.words, theirs.words)
        or _reorders(mine.words, theirs.words)
        or _swaps(mine.words, theirs.words)
        or _same_order(new, old)
    )


def surely_contradicts(new: str, old: str) -> bool:
    """Say whether identifiers alone show a contradiction, however unlike the texts are.

    One forbids an identifier the other advises, or gives the same order with another one.
    """
    mine, theirs = _stance(new), _stance(old)
    return _bans(mine, theirs) or _bans(theirs, mine) or _same_order(new, old)


def _bans(one: _Stance, other: _Stance) -> bool:
    return any(
        any(map(is_identifier, phrase & other.advised)) and _hits(phrase, one, other)
        for phrase in one.bans
    )


def _same_order(new: str, old: str) -> bool:
    """Say whether an order of each is the same but for one number, name or identifier."""
    theirs = list(_orders(old))
    return any(_but_one(mine, other) for mine in _orders(new) for other in theirs)


class _Order(NamedTuple):
    words: list[Word]
    condition: int
    """Where in the text a condition begins: what stands there is another situation."""


def _orders(text: str) -> Iterator[_Order]:
    """Yield the clauses that order something: a scope or condition alone orders nothing."""
    start = 0
    for _, run in groupby(words_of(text), lambda word: word.clause):
        clause = list(run)
        told, end = text[start : clause[-1].end], clause[-1].end
        bound = _BOUND.search(told)
        if mood_of(told.lstrip(_BETWEEN)) is Mood.INSTRUCTION:
            yield _Order(clause, start + bound.start() if bound else end)
        start = end


def _but_one(one: _Order, other: _Order) -> bool:
    pairs = list(zip(one.words, other.words, strict=False))
    if len(one.words) != len(other.words) or len(pairs) < LEAST_ORDER:
        return False
    unlike = [(a, b) for a, b in pairs if a.signed != b.signed]
    if len(unlike) != 1:
        return False
    mine, theirs = unlike[0]
    before = mine.end <= one.condition and theirs.end <= other.condition
    return before and mine.hard and theirs.hard


def _stance(text: str) -> _Stance:
    words = tuple(word._replace(form=_unqualified(word.form)) for word in words_of(text))
    gone = tuple(_gone(text))
    advised = {word.form for word in words if word.advice and not word.negated}
    return _Stance(
        words,
        frozenset(advised.difference(*gone)),
        (*_phrases(words), *gone),
        (*_phrases(word for word in words if word.advice), *gone),
        frozenset(word.form for word in words if word.hard),
    )


def _unqualified(form: str) -> str:
    """Return the column of `table.column`: lessons name it either way."""
    return form.rpartition(".")[2] if _QUALIFIED.fullmatch(form) else form


def _phrases(words: Iterable[Word]) -> Iterator[frozenset[str]]:
    """Yield what is negated: of advice every word, of an explanation what it names."""
    for (negated, _), run in groupby(words, lambda word: (word.negated, word.clause)):
        told = [word for word in run if word.hard or word.advice]
        forms = frozenset(word.form for word in told if word.form not in _LINKING)
        if negated and forms:
            yield forms


def _gone(text: str) -> Iterator[frozenset[str]]:
    for found in _GONE.findall(text):
        if forms := frozenset(_unqualified(word.form) for word in words_of(found) if word.hard):
            yield forms


def _forbids(one: _Stance, other: _Stance) -> bool:
    """Say whether `one` forbids what `other` advises; a thing it advises itself is no ban."""
    return any(_hits(phrase, one, other) for phrase in one.forbidden)


def _hits(phrase: frozenset[str], one: _Stance, other: _Stance) -> bool:
    banned = frozenset().union(*other.forbidden)
    met = {form for form in phrase & other.advised if form not in one.advised | banned}
    named = phrase & one.hard
    if named and not met & named:
        return False
    if any(opposed(form, advised) for form in phrase for advised in other.advised):
        return False  # not after the join: before it
    most = len(met) * 2 > len(phrase)
    return most or (bool(named) and (len(met) > 1 or len(phrase) == 2))


def _opposes(mine: Sequence[Word], theirs: Sequence[Word]) -> bool:
    return any(
        opposed(a.form, b.form) and a.negated == b.negated
        for a in missing(mine, theirs)
        for b in missing(theirs, mine)
    )


def _reorders(mine: Sequence[Word], theirs: Sequence[Word]) -> bool:
    """Say whether the new text has the old one's words, in another order: `cents to euros`."""
    told = [word for word in mine if not word.negated and word.form not in TURNING]
    return not missing(mine, theirs) and bool(told) and subsequence(told, theirs) is None


def _swaps(mine: Sequence[Word], theirs: Sequence[Word]) -> bool:
    """Say whether, between equal words, one number, name or identifier stands for another."""
    left, right = [word.form for word in mine], [word.form for word in theirs]
    for tag, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag != "replace" or max(b - a, d - c) > LONGEST_SWAP:
            continue
        ours = {word.negated for word in mine[a:b] if word.hard and word.form not in right}
        if ours & {word.negated for word in theirs[c:d] if word.hard and word.form not in left}:
            return True
    return False


def missing(mine: Iterable[Word], theirs: Iterable[Word]) -> tuple[Word, ...]:
    """Return the words of the one the other lacks, sign included."""
    known = {word.signed for word in theirs}
    return tuple(word for word in mine if word.signed not in known)


def subsequence(mine: Sequence[Word], theirs: Sequence[Word]) -> list[int] | None:
    """Return where each of `mine` stands in `theirs`, in order; None when one is missing."""
    matched, at = [], 0
    for word in mine:
        while at < len(theirs) and theirs[at].signed != word.signed:
            at += 1
        if at == len(theirs):
            return None
        matched.append(at)
        at += 1
    return matched or None
