"""Tell whether a new lesson repeats a curated one, is related to it, or is against it.

Cosine alone cannot tell (measured with MiniLM: paraphrases 0.83, negations 0.93,
changed numbers 0.98). A duplicate is near AND says nothing the old one does not
say; whatever else is near is related, or a conflict where numbers, names,
identifiers or a negation differ. Neither of these two is ever dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.models import Curated, Lesson
from lessons_loop.promote.opposition import contradicts, missing, subsequence
from lessons_loop.promote.records import Neighbour
from lessons_loop.promote.wording import EXCEPTIONS, TURNING, Word, has_condition, words_of

DUP_THRESHOLD = 0.90
RELATED_FLOOR = 0.73
"""Cosine from which two lessons are about the same thing (MiniLM, measured)."""
SURELY_RELATED = 0.80
LEAST_OVERLAP = 0.15
"""Below SURELY_RELATED, the share of its words a lesson must find in the other one."""
TEXT_ALONE = 0.20
"""Two texts are nearer than text and trigger together by 0.14 at most (MiniLM, measured)."""
NEAREST = 10
DUPLICATE, CONFLICT, RELATED, UNRELATED = "duplicate", "conflict", "related", "unrelated"
_RANK = {DUPLICATE: 0, CONFLICT: 1, RELATED: 2, UNRELATED: 3}


class Comparison(NamedTuple):
    """How a new lesson stands to an old one."""

    relation: str
    new_only: tuple[str, ...]
    """Words of the new one the old one lacks, as written."""
    old_only: tuple[str, ...]


def compare(new: Lesson, old: Lesson, cosine: float, threshold: float) -> Comparison:
    """Return the relation; the same key is a duplicate whatever the cosine."""
    mine, theirs = words_of(new.text), words_of(old.text)
    new_only, old_only = missing(mine, theirs), missing(theirs, mine)
    shown = (_shown(new_only), _shown(old_only))
    if repeats(new, old, cosine, threshold):
        return Comparison(DUPLICATE, *shown)
    far = cosine < SURELY_RELATED and _overlap(mine, theirs) < LEAST_OVERLAP
    if cosine < RELATED_FLOOR or far:
        return Comparison(UNRELATED, *shown)
    conflict = contradicts(new.text, old.text)
    return Comparison(CONFLICT if conflict else RELATED, *shown)


def nearest(
    new: Lesson,
    vector: Vectors,
    curated: Mapping[str, Curated],
    matrix: tuple[Sequence[str], Vectors],
    threshold: float = DUP_THRESHOLD,
    texts: Callable[[Sequence[Lesson]], Vectors] | None = None,
) -> Neighbour | None:
    """Return the curated lesson that matters most: a duplicate, a conflict, else the nearest.

    `vector` has shape (dimension,); `matrix` holds curated's keys and their unit rows, all
    of trigger and text. `texts` embeds texts alone: the same advice under another trigger
    is as near as its text.
    """
    keys, vectors = matrix
    if not keys:
        return None
    cosines = np.clip(vectors @ vector, -1.0, 1.0)
    top = [int(at) for at in np.argsort(-cosines, kind="stable")[:NEAREST]]
    same = [keys.index(new.key)] if new.key in curated else []
    rows = list(dict.fromkeys([*same, *top]))
    olds = [curated[keys[at]] for at in rows]
    near = nearness(new, [old.lesson for old in olds], cosines[rows], texts)
    found = [
        _neighbour(new, old, float(cosine), threshold)
        for old, cosine in zip(olds, near, strict=True)
    ]
    return min(found, key=lambda near: (_RANK[near.relation], -near.similarity))


def nearness(
    new: Lesson,
    olds: Sequence[Lesson],
    cosines: Vectors,
    texts: Callable[[Sequence[Lesson]], Vectors] | None,
) -> Vectors:
    """Return cosines of trigger and text or of text alone, whichever is greater, per old one."""
    near = np.array(cosines, dtype=np.float32)
    close = [at for at, cosine in enumerate(near) if cosine >= RELATED_FLOOR - TEXT_ALONE]
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


def _neighbour(new: Lesson, old: Curated, cosine: float, threshold: float) -> Neighbour:
    relation, new_only, old_only = compare(new, old.lesson, cosine, threshold)
    differences = tuple(f"+{word}" for word in new_only) + tuple(f"-{word}" for word in old_only)
    return Neighbour(old, round(cosine, 4), relation, differences)


def _repeats(new: Lesson, old: Lesson, mine: Sequence[Word], theirs: Sequence[Word]) -> bool:
    """Say whether everything in `new` stands in `old`, in order, under the same conditions."""
    matched = subsequence(mine, theirs)  # first: thousands of near pairs end here
    if matched is None or _turned(matched, theirs):
        return False
    if has_condition(old.text) and not has_condition(new.text):
        return False
    return not _takes_back(theirs) - _takes_back(mine) and _same_situation(new, old)


def _takes_back(words: Sequence[Word]) -> set[str]:
    return {word.shown.casefold() for word in words} & EXCEPTIONS


def _same_situation(new: Lesson, old: Lesson) -> bool:
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
