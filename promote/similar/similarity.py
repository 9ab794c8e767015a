"""Tell whether a new lesson repeats a curated one, is related to it, or is against it.

Cosine alone cannot tell (measured with MiniLM: paraphrases 0.83, negations 0.93,
changed numbers 0.98). A duplicate is near AND says nothing the old one does not
say. Whatever else is near is broader (the old one and further advice), a conflict
where numbers, names, identifiers or a negation differ, or related. None of these
is ever dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from lessons_loop.filter.embed import Fingerprint, Vectors
from lessons_loop.filter.models import Curated, Lesson
from lessons_loop.promote.lint.imperative import Mood, mood_of
from lessons_loop.promote.records import Neighbour
from lessons_loop.promote.similar.addition import extends
from lessons_loop.promote.similar.opposition import (
    contradicts,
    missing,
    subsequence,
    surely_contradicts,
)
from lessons_loop.promote.similar.wording import EXCEPTIONS, TURNING, Word, has_condition, words_of

DUP_THRESHOLD = 0.90
MINILM_LEVEL = 0.04
"""Mean cosine of the fingerprint's eight unrelated sentences (MiniLM, measured)."""
HIGHEST_LEVEL = 0.95
RELATED_FLOOR = 0.73
"""Cosine on MiniLM's scale from which two lessons are about the same thing (measured)."""
OPPOSED_FLOOR = 0.53
"""Cosine from which identifiers alone may show a conflict."""
SURELY_RELATED = 0.80
LEAST_OVERLAP = 0.15
"""Below SURELY_RELATED, the share of its words a lesson must find in the other one."""
TEXT_ALONE = 0.20
"""Two texts are nearer than text and trigger together by 0.14 at most (MiniLM, measured)."""
NEAREST = 10
_PARTS = re.compile(r"[.;!?]+(?:\s+|$)")
DUPLICATE, CONFLICT, RELATED, UNRELATED = "duplicate", "conflict", "related", "unrelated"
BROADER = "broader"
"""The old one, word for word, and further advice behind it."""
_RANK = {DUPLICATE: 0, CONFLICT: 1, RELATED: 2, BROADER: 3, UNRELATED: 4}


class Comparison(NamedTuple):
    """How a new lesson stands to an old one."""

    relation: str
    new_only: tuple[str, ...]
    """Words of the new one the old one lacks, as written."""
    old_only: tuple[str, ...]


def level_of(model: Fingerprint | None) -> float:
    """Return how near unrelated texts are under a model: their mean cosine."""
    if model is None or not model.cosines:
        return MINILM_LEVEL
    return min(max(float(np.mean(model.cosines)), MINILM_LEVEL), HIGHEST_LEVEL)


def on_minilm_scale(cosine: float, level: float) -> float:
    """Return a cosine as if unrelated texts were as far apart as under MiniLM.

    What brings all texts of a model close is mostly one direction they share; taking it away
    stretches cosines from `level` to 1 evenly.
    """
    return 1.0 - (1.0 - cosine) * (1.0 - MINILM_LEVEL) / (1.0 - level)


def compare(
    new: Lesson, old: Lesson, cosine: float, threshold: float, level: float = MINILM_LEVEL
) -> Comparison:
    """Return the relation; the same key is a duplicate whatever the cosine."""
    mine, theirs = words_of(new.text), words_of(old.text)
    new_only, old_only = missing(mine, theirs), missing(theirs, mine)
    shown = (_shown(new_only), _shown(old_only))
    if repeats(new, old, cosine, threshold):
        return Comparison(DUPLICATE, *shown)
    relation = _relation(new.text, old.text, on_minilm_scale(cosine, level))
    return Comparison(relation, *shown)


def _relation(new: str, old: str, cosine: float) -> str:
    """Return the relation of two texts that do not say the same; cosine on MiniLM's scale."""
    if cosine < SURELY_RELATED and _overlap(words_of(new), words_of(old)) < LEAST_OVERLAP:
        return UNRELATED
    if cosine < RELATED_FLOOR:
        return CONFLICT if cosine >= OPPOSED_FLOOR and surely_contradicts(new, old) else UNRELATED
    if contradicts(new, old):
        return CONFLICT
    return BROADER if extends(new, old) else RELATED


def nearest(
    new: Lesson,
    vector: Vectors,
    curated: Mapping[str, Curated],
    matrix: tuple[Sequence[str], Vectors],
    threshold: float = DUP_THRESHOLD,
    texts: Callable[[Sequence[Lesson]], Vectors] | None = None,
    level: float = MINILM_LEVEL,
    aside: Collection[str] = (),
) -> Neighbour | None:
    """Return the curated lesson that matters most: a duplicate, a conflict, else the nearest.

    `vector` has shape (dimension,); `matrix` holds curated's keys and their unit rows, all
    of trigger and text. `texts` embeds texts alone: the same advice under another trigger
    is as near as its text. `level` is the embedding model's, see `level_of`; keys in
    `aside` are passed over.
    """
    keys, vectors = matrix
    if not keys:
        return None
    cosines = np.clip(vectors @ vector, -1.0, 1.0)
    order = _highest(cosines, NEAREST + len(aside))
    top = islice((at for at in order if keys[at] not in aside), NEAREST)
    same = [keys.index(new.key)] if new.key in curated else []
    rows = list(dict.fromkeys([*same, *top]))
    if not rows:
        return None
    olds = [curated[keys[at]] for at in rows]
    near = nearness(new, [old.lesson for old in olds], cosines[rows], texts, level)
    found = [
        _neighbour(new, old, float(cosine), threshold, level)
        for old, cosine in zip(olds, near, strict=True)
    ]
    return min(found, key=lambda near: (_RANK[near.relation], -near.similarity))


def _highest(cosines: Vectors, count: int) -> list[int]:
    """Return the places of the highest values, highest first; equal ones in their order."""
    if len(cosines) > count:
        least = np.partition(cosines, -count)[-count]
        places = np.flatnonzero(cosines >= least)
    else:
        places = np.arange(len(cosines))
    return [int(at) for at in places[np.argsort(-cosines[places], kind="stable")]]


def nearness(
    new: Lesson,
    olds: Sequence[Lesson],
    cosines: Vectors,
    texts: Callable[[Sequence[Lesson]], Vectors] | None,
    level: float = MINILM_LEVEL,
) -> Vectors:
    """Return cosines of trigger and text or of text alone, whichever is greater, per old one."""
    near = np.array(cosines, dtype=np.float32)
    least = RELATED_FLOOR - TEXT_ALONE
    close = [at for at, cosine in enumerate(near) if on_minilm_scale(cosine, level) >= least]
    if texts is not None and close:
        rows = texts([new, *(olds[at] for at in close)])
        near[close] = np.maximum(near[close], np.clip(rows[1:] @ rows[0], -1.0, 1.0))
    return near


def repeats(new: Lesson, old: Lesson, cosine: float, threshold: float = DUP_THRESHOLD) -> bool:
    """Say whether `new` is a duplicate of `old`."""
    if new.key == old.key:
        return True
    return cosine >= threshold and _repeats(new, old, words_of(new.text), words_of(old.text))


def adds_advice(full: Lesson, part: Lesson) -> bool:
    """Say whether `full` names or orders something that `part`, which it contains, does not."""
    added = missing(words_of(full.text), words_of(part.text))
    known = {word.form for word in words_of(part.text)}
    shared = {word.clause for word in words_of(full.text) if word.form in known}
    return any(word.hard or (word.advice and word.clause not in shared) for word in added)


def _neighbour(
    new: Lesson, old: Curated, cosine: float, threshold: float, level: float
) -> Neighbour:
    relation, new_only, old_only = compare(new, old.lesson, cosine, threshold, level)
    differences = tuple(f"+{word}" for word in new_only) + tuple(f"-{word}" for word in old_only)
    return Neighbour(old, round(cosine, 4), relation, differences)


def _repeats(new: Lesson, old: Lesson, mine: Sequence[Word], theirs: Sequence[Word]) -> bool:
    """Say whether everything in `new` stands in `old`, in order, under the same conditions."""
    matched = subsequence(mine, theirs)  # first: thousands of near pairs end here
    if matched is None:
        equal = len(mine) == len(theirs) and not missing(mine, theirs)
        return equal and _rearranges(new.text, old.text) and same_situation(new, old)
    if _turned(matched, theirs):
        return False
    if has_condition(old.text) and not has_condition(new.text):
        return False
    return not takes_back(theirs) - takes_back(mine) and same_situation(new, old)


def _rearranges(new: str, old: str) -> bool:
    """Say whether the same parts stand in another order; of several orders the order counts."""
    parts = [part for part in _PARTS.split(new) if part]
    orders = sum(mood_of(part) is not Mood.STATEMENT for part in parts)
    return orders <= 1 and _parts(parts) == _parts(_PARTS.split(old))


def _parts(parts: Iterable[str]) -> list[list[tuple[str, bool]]]:
    return sorted([word.signed for word in words_of(part)] for part in parts if words_of(part))


def takes_back(words: Sequence[Word]) -> set[str]:
    """Return the words that take something back, such as `except`."""
    return {word.shown.casefold() for word in words} & EXCEPTIONS


def same_situation(new: Lesson, old: Lesson) -> bool:
    """Say whether the new trigger names nothing the old lesson does not name."""
    known = {word.form.casefold() for word in words_of(f"{old.trigger} ; {old.text}")}
    triggers = words_of(new.trigger)
    return all(word.form.casefold() in known for word in triggers if word.hard or word.negated)


def _turned(matched: Sequence[int], theirs: Sequence[Word]) -> bool:
    """Say whether a left-out word inside the matched clauses turns the advice round."""
    clauses = {theirs[at].clause for at in matched}
    return any(
        word.clause in clauses and (word.negated or word.form in TURNING or word.shown in TURNING)
        for at, word in enumerate(theirs)
        if at not in set(matched)
    )


def _overlap(mine: Sequence[Word], theirs: Sequence[Word]) -> float:
    forms = {word.form for word in mine}
    return len(forms & {word.form for word in theirs}) / len(forms) if forms else 1.0


def _shown(words: Iterable[Word]) -> tuple[str, ...]:
    named = (f"not {word.shown}" if word.negated else word.shown for word in words)
    return tuple(dict.fromkeys(named))
