"""Lexical evidence: which words, identifiers, numbers and codes two texts share.

Vectors confuse look-alikes (enabled/disabled, v1/v2, 137/143); words decide
between them. The score is the cosine of idf-weighted term sets, 0 to 1.
"""

from __future__ import annotations

import functools
import math
import re
from array import array
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lessons_loop.filter.spelling import Spellings, build_spellings, intended
from lessons_loop.filter.text import scrub

Scores = npt.NDArray[np.float32]
_LEXICAL_TERM = re.compile(r"[^\W_]+(?:[._/:-][^\W_]+|_+[^\W_]+)*", re.UNICODE)
_LEXICAL_PIECE = re.compile(r"[^\W\d_]+|\d+", re.UNICODE)
_LEXICAL_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LEXICAL_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_LEXICAL_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")
_LEXICAL_OFF = re.compile(
    r"\b(?:switch|turn)\w*\s+((?:\w+\s+){0,3})off\b|\b(?:is|are|was|still)\s+off\b"
    r"|(?:\bnot|\bnever|n't)\s+(?:enabled|activated|(?:switched|turned)\s+on)\b"
    r"|\bdisabl(?:es?|ing)\b|\bdeactivat(?:ed?|es|ing)\b"
    r"|\b(?:ausgeschaltet|abgeschaltet|ausschalten|deaktivier\w+)|\bdésactiv\w+"
    r"|\bdesactivad\w+|\bdeshabilitad\w+|\bdesativad\w+|\bdisattivat\w+",
    re.IGNORECASE,
)
_LEXICAL_ON = re.compile(
    r"\b(?:switch|turn)\w*\s+((?:\w+\s+){0,3})on\b|\b(?:is|are|was)\s+on\s*(?=[.,;:!?)]|$)"
    r"|\benabl(?:es?|ing)\b|\bactivat(?:ed?|es|ing)\b"
    r"|\b(?:eingeschaltet|einschalten|aktivier\w+)|\bactiv(?:é|er|ada|ado)\w*"
    r"|\bhabilitad\w+|\bativad\w+|\battivat\w+",
    re.IGNORECASE,
)
"""The one pair of states that people name in many ways; lessons say enabled or disabled."""
_LEXICAL_STATE_ROOTS = (
    *("enabl", "disabl", "turn", "switch", "activ", "aktiv", "ativ", "attiv", "habilit", "schalt"),
    *("s on", "e on", "s off", "e off", "l off"),
)
IDENTIFIER_WEIGHT = 1.6
"""Names with digits, dots or underscores say more than plain words."""
LEAST_TEXTS = 50
FEW_WORDS = 2
"""Strange words every question is thought to have more: one shared word alone says little."""
_LEXICAL_STOPS = """
a about after all also an and any are as at be been before but by can could did do does for from
get give had has have how i if in into is it its just let like me more most my need no not of on
one only or our out over please same should show so some such take tell than that the their them
then there these they this to up us use want was we were what when where which who why will with
would you your der die das den dem des ein eine einen einem einer und oder ist sind war wie wo
warum ich wir sie es mit auf für von zu zum zur im bei nicht nur auch man mir uns bitte le la
les un une du de et ou est sont que qui quoi comment pourquoi je nous vous il elle dans pour
avec sur pas au aux el los las una unos y o son como por para con en del al mi lo gli uno e che
di da per non
"""
STOP_WORDS = frozenset(_LEXICAL_STOPS.split())
_LEXICAL_ENDINGS = (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", "e"), ("s", ""))
MISSPELT_SHARE = 0.7
"""What a word counts that stands in a lesson with one letter changed."""
MISSPELT_MOST = 12
"""Unknown words of a question that are looked up by spelling."""


class LexicalIndex(NamedTuple):
    """Terms of a fixed list of texts, ready to be scored against."""

    size: int
    postings: Mapping[str, npt.NDArray[np.int32]]
    """Term to the positions of the texts that hold it."""
    idf: Mapping[str, float]
    norms: Scores
    unseen: float
    """idf of a term no text holds."""
    spellings: Spellings


def stem(word: str) -> str:
    """Cut the commonest English endings, so that plural and singular meet."""
    for ending, keep in _LEXICAL_ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            return word[: len(word) - len(ending)] + keep
    return word


def terms(text: str) -> set[str]:
    """Return the terms of a text: words, whole identifiers, their pieces."""
    found: set[str] = set()
    plain = states(_LEXICAL_THOUSANDS.sub("", scrub(text)))
    for match in _LEXICAL_TERM.finditer(plain):
        found.update(terms_of(match.group()))
    return found


@functools.lru_cache(maxsize=8_192)
def terms_of(raw: str) -> frozenset[str]:
    """Return the terms of one word or identifier; a language's few common words fill most texts.

    Measured: 10,000 lessons are indexed in half the time.
    """
    found: set[str] = set()
    spaced = _LEXICAL_CAMEL.sub(" ", raw)
    pieces = [piece.lower() for piece in _LEXICAL_PIECE.findall(spaced)]
    if len(pieces) > 1:
        found.add(raw.lower())
    for piece in pieces:
        if _LEXICAL_CJK.search(piece):
            found.update(bigrams(piece))
        elif piece not in STOP_WORDS and (len(piece) > 1 or piece.isdigit()):
            found.add(stem(piece))
    return frozenset(found)


def states(text: str) -> str:
    """Return the text with enabled or disabled for whatever means the same.

    A look for the roots of such words first saves most of the cost.
    """
    lower = text.lower()
    if not any(root in lower for root in _LEXICAL_STATE_ROOTS):
        return text
    return _LEXICAL_ON.sub(r" \1enabled ", _LEXICAL_OFF.sub(r" \1disabled ", text))


def weight_of(term: str) -> float:
    """Return how much a term says beside its rarity."""
    return 1.0 if term.isalpha() else IDENTIFIER_WEIGHT


def bigrams(text: str) -> list[str]:
    """Return overlapping character pairs: words of scripts written without spaces."""
    return [text[i : i + 2] for i in range(len(text) - 1)] or [text]


def build_lexical(texts: Iterable[str]) -> LexicalIndex:
    """Index the texts; their order gives the positions."""
    positions: dict[str, array[int]] = {}
    size = 0
    for position, text in enumerate(texts):
        size = position + 1
        for term in terms(text):
            positions.setdefault(term, array("i")).append(position)
    postings = {term: np.array(rows, dtype=np.int32) for term, rows in positions.items()}
    idf = {term: _idf(size, len(rows)) for term, rows in postings.items()}
    squares = np.zeros(size, dtype=np.float32)
    for term, rows in postings.items():
        squares[rows] += (weight_of(term) * idf[term]) ** 2
    norms = np.sqrt(squares)
    return LexicalIndex(size, postings, idf, norms, _idf(size, 0), build_spellings(postings))


def _idf(size: int, holders: int) -> float:
    """Rarity of a term; a handful of texts says little about it, so they count as more."""
    texts = max(size, LEAST_TEXTS)
    return math.log(1.0 + (texts - holders + 0.5) / (holders + 0.5)) + 0.3


def score_lexical(index: LexicalIndex, query: str) -> Scores:
    """Return each text's score against the query, shape (size,), 0 to 1."""
    return score_turns(index, [(query, 1.0)])


def score_turns(index: LexicalIndex, turns: Iterable[tuple[str, float]]) -> Scores:
    """Return each text's score against turns with a weight each; a term counts by its best."""
    weighted: dict[str, float] = {}
    for text, weight in turns:
        for term, known in known_terms(index, text):
            weighted[term] = max(weighted.get(term, 0.0), weight * known)
    scores: Scores = np.zeros(index.size, dtype=np.float32)
    total = 0.0
    for term, share in weighted.items():
        value = weight_of(term) * index.idf.get(term, index.unseen)
        total += (share * value) ** 2
        if (rows := index.postings.get(term)) is not None:
            scores[rows] += share * value * value
    if total == 0.0:
        return scores
    total += FEW_WORDS * index.unseen**2
    norms = np.maximum(index.norms, 1e-6) * math.sqrt(total)
    cosine: Scores = np.minimum(scores / norms, 1.0).astype(np.float32)
    return cosine


def known_terms(index: LexicalIndex, text: str) -> list[tuple[str, float]]:
    """Return a text's terms with what each counts, misspelt ones as the word that was meant."""
    found = terms(text)
    strange = sorted(term for term in found if term not in index.postings and term.isalpha())
    meant: dict[str, str] = {}
    for term in strange[:MISSPELT_MOST]:
        if word := intended(index.spellings, term):
            meant[term] = word
    kept = [(term, 1.0) for term in found if term not in meant]
    return kept + [(word, MISSPELT_SHARE) for word in meant.values()]
