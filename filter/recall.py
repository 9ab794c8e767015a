"""Choose the few curated lessons that fit a question: pure, no I/O.

Score = cosine of the question's best view with `trigger + text`, plus a share of
lexical evidence. A relevance floor keeps small talk clean; it cannot tell a
same-topic question that no lesson answers, so the block lets the model decline.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.lexical import LexicalIndex, Scores, build_lexical, score_lexical
from lessons_loop.filter.models import Curated
from lessons_loop.filter.published import PublishedSet

LEXICAL_SHARE = 0.3
LEXICAL_FLOOR = 0.2
"""Floor of the lexical half alone, where a published file brings none of its own."""
DEFAULT_FLOOR = 0.3
TWIN_SIMILARITY = 0.93
"""Cosine from which two lessons repeat or contradict each other (negations: 0.93 measured)."""
STICKY_SHARE = 0.5
LINE_OVERHEAD = 12
"""Tokens of a lesson's reference and trigger words in the block."""


@dataclass(frozen=True)
class RecallIndex:
    """Everything recall needs of one or more domains, built once per refresh."""

    lessons: tuple[Curated, ...]
    vectors: Vectors
    """Centred unit rows, shape (n, dimension); dimension 0 where recall is lexical."""
    mean: npt.NDArray[np.float32]
    lexical: LexicalIndex
    floor: float
    lexical_floor: float

    @property
    def dimension(self) -> int:
        """Dimension of the vectors, 0 without any."""
        return int(self.vectors.shape[1])


def build_index(sets: Sequence[PublishedSet]) -> RecallIndex:
    """Join published files into one index; files of different models go without vectors."""
    lessons = tuple(lesson for published in sets for lesson in published.lessons)
    dense = comparable([s for s in sets if s.header.count])
    mean = next((np.array(s.header.mean, np.float32) for s in sets if s.header.mean), np.zeros(0))
    vectors = np.concatenate([s.vectors for s in sets if s.header.count]) if dense else None
    if vectors is None:
        vectors, mean = np.zeros((len(lessons), 0), np.float32), np.zeros(0)
    floors = [s.header.floor for s in sets if s.header.floor is not None]
    lexical_floors = [s.header.lexical_floor for s in sets if s.header.lexical_floor is not None]
    return RecallIndex(
        lessons,
        centre(vectors, mean.astype(np.float32)),
        mean.astype(np.float32),
        build_lexical(lexical_text(lesson) for lesson in lessons),
        max(floors, default=DEFAULT_FLOOR),
        max(lexical_floors, default=LEXICAL_FLOOR),
    )


def comparable(sets: Sequence[PublishedSet]) -> bool:
    """Say whether all files carry vectors of one and the same embedding model."""
    prints = [s.header.fingerprint for s in sets]
    first = prints[0] if prints else None
    return first is not None and all(p is not None and first.matches(p) for p in prints)


def lexical_text(curated: Curated) -> str:
    """Return the words a lesson is found by: trigger, text and tags."""
    lesson = curated.lesson
    return "\n".join([lesson.trigger, lesson.text, *lesson.tags])


def centre(rows: Vectors, mean: npt.NDArray[np.float32]) -> Vectors:
    """Subtract the corpus mean and renormalise; without a mean the rows stay as they are."""
    if mean.size == 0 or rows.size == 0:
        return rows
    shifted = rows - mean
    norms = np.maximum(np.linalg.norm(shifted, axis=1, keepdims=True), 1e-9)
    centred: Vectors = (shifted / norms).astype(np.float32)
    return centred


def score(index: RecallIndex, texts: Sequence[str], vectors: Vectors | None) -> Scores:
    """Return each lesson's best score over the question's views, shape (n,).

    `vectors` are the views' unit rows; None scores by words alone.
    """
    lexical = np.max([score_lexical(index.lexical, text) for text in texts], axis=0)
    if vectors is None:
        words: Scores = lexical
        return words
    views = centre(vectors, index.mean)
    # one product per view keeps BLAS on its vector path: 0.6 ms at 10,000 lessons
    cosines = np.max([np.einsum("nd,d->n", index.vectors, view) for view in views], axis=0)
    joined: Scores = (cosines + LEXICAL_SHARE * lexical).astype(np.float32)
    return joined


def select(
    index: RecallIndex,
    scores: Scores,
    *,
    floor: float,
    top_k: int,
    token_budget: int,
    shown: Sequence[str] = (),
) -> tuple[Curated, ...]:
    """Return the lessons to show, in the order to show them.

    `shown` are keys this chat has seen: they keep their place while they score
    above half the floor; new ones come behind, ordered by key, so that the same
    lessons always give the same bytes (ties in scores would not).
    """
    ranked = np.argsort(-scores, kind="stable")[: max(200, 4 * top_k)]
    wanted = [int(i) for i in ranked if scores[i] >= floor]
    keep = _sticky(index, scores, floor, shown)
    chosen = _fitting(index, [*wanted, *(i for i in keep if i not in wanted)], top_k, token_budget)
    places = {key: place for place, key in enumerate(shown)}
    lessons = [index.lessons[i] for i in chosen]
    return tuple(sorted(lessons, key=lambda c: (places.get(c.key, len(places)), c.key)))


def _sticky(index: RecallIndex, scores: Scores, floor: float, shown: Sequence[str]) -> list[int]:
    if not shown:
        return []
    known = set(shown)
    still = [
        i
        for i in np.flatnonzero(scores >= STICKY_SHARE * floor)
        if index.lessons[int(i)].key in known
    ]
    return sorted((int(i) for i in still), key=lambda i: -float(scores[i]))


def _fitting(index: RecallIndex, order: Iterable[int], top_k: int, token_budget: int) -> list[int]:
    chosen: list[int] = []
    used = 0
    for i in order:
        if len(chosen) >= top_k:
            break
        cost = tokens(lexical_text(index.lessons[i])) + LINE_OVERHEAD
        if used + cost > token_budget or any(twins(index, i, j) for j in chosen):
            continue
        chosen.append(i)
        used += cost
    return chosen


def twins(index: RecallIndex, one: int, other: int) -> bool:
    """Say whether two lessons repeat or contradict each other."""
    if index.dimension:
        return float(index.vectors[one] @ index.vectors[other]) >= TWIN_SIMILARITY
    return index.lessons[one].key == index.lessons[other].key


def tokens(text: str) -> int:
    """Estimate the tokens of a text: 4 bytes each, 2 for scripts beyond Latin."""
    wide = sum(1 for character in text if ord(character) > 0x2E7F)
    return (len(text) - wide + 3) // 4 + wide
