"""Choose the few curated lessons that fit a question: pure, no I/O.

Score = cosine of the question's best view with `trigger + text`, plus a share of
lexical evidence. A relevance floor keeps small talk clean; it cannot tell a
same-topic question that no lesson answers, so the block lets the model decline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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

    lines: tuple[bytes, ...]
    """Each lesson as JSON; only the chosen ones are parsed."""
    keys: tuple[str, ...]
    places: Mapping[str, int]
    """Key to position."""
    costs: npt.NDArray[np.int32]
    """Estimated tokens of each lesson in the block."""
    vectors: Vectors
    """Centred unit rows, shape (n, dimension); dimension 0 where recall is lexical."""
    mean: npt.NDArray[np.float32]
    lexical: LexicalIndex
    floor: float
    lexical_floor: float

    def lesson(self, place: int) -> Curated:
        """Return one lesson."""
        return Curated.model_validate_json(self.lines[place])

    @property
    def dimension(self) -> int:
        """Dimension of the vectors, 0 without any."""
        return int(self.vectors.shape[1])


def build_index(sets: Sequence[PublishedSet]) -> RecallIndex:
    """Join published files into one index; files of different models go without vectors."""
    sets = [found for found in sets if found.keys]
    keys = tuple(key for found in sets for key in found.keys)
    words = [text for found in sets for text in found.words]
    means = [found.header.mean for found in sets if found.header.mean]
    dense = comparable(sets)
    mean = np.array(means[0] if means and dense else (), np.float32)
    floors = [s.header.floor for s in sets if s.header.floor is not None]
    lexical_floors = [s.header.lexical_floor for s in sets if s.header.lexical_floor is not None]
    return RecallIndex(
        lines=tuple(line for found in sets for line in found.lines),
        keys=keys,
        places={key: place for place, key in enumerate(keys)},
        costs=np.array([tokens(text) + LINE_OVERHEAD for text in words], np.int32),
        vectors=centre(joined_vectors(sets, dense=dense), mean),
        mean=mean,
        lexical=build_lexical(words),
        floor=max(floors, default=DEFAULT_FLOOR),
        lexical_floor=max(lexical_floors, default=LEXICAL_FLOOR),
    )


def joined_vectors(sets: Sequence[PublishedSet], *, dense: bool) -> Vectors:
    """Return the rows of all files, without a copy where there is one file."""
    if not dense:
        return np.zeros((sum(len(found.keys) for found in sets), 0), np.float32)
    return sets[0].vectors if len(sets) == 1 else np.concatenate([s.vectors for s in sets])


def comparable(sets: Sequence[PublishedSet]) -> bool:
    """Say whether all files carry vectors of one and the same embedding model."""
    prints = [s.header.fingerprint for s in sets]
    first = prints[0] if prints else None
    return first is not None and all(p is not None and first.matches(p) for p in prints)


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
    wanted = best_places(scores, floor, 40 * max(top_k, 1))
    known = [index.places[key] for key in shown if key in index.places]
    keep = sorted(
        (p for p in known if scores[p] >= STICKY_SHARE * floor and p not in wanted),
        key=lambda place: -float(scores[place]),
    )
    chosen = _fitting(index, [*wanted, *keep], top_k, token_budget)
    seats = {key: seat for seat, key in enumerate(shown)}
    ordered = sorted(chosen, key=lambda p: (seats.get(index.keys[p], len(seats)), index.keys[p]))
    return tuple(index.lesson(place) for place in ordered)


def best_places(scores: Scores, floor: float, most: int) -> list[int]:
    """Return the positions at or above the floor, best first, at most `most`."""
    above = np.flatnonzero(scores >= floor)
    if len(above) > most:
        above = above[np.argpartition(-scores[above], most)[:most]]
    return [int(place) for place in above[np.argsort(-scores[above], kind="stable")]]


def _fitting(index: RecallIndex, order: Iterable[int], top_k: int, token_budget: int) -> list[int]:
    chosen: list[int] = []
    used = 0
    for place in order:
        if len(chosen) >= top_k:
            break
        cost = int(index.costs[place])
        if used + cost <= token_budget and not any(twins(index, place, c) for c in chosen):
            chosen.append(place)
            used += cost
    return chosen


def twins(index: RecallIndex, one: int, other: int) -> bool:
    """Say whether two lessons repeat or contradict each other."""
    if index.dimension:
        return float(index.vectors[one] @ index.vectors[other]) >= TWIN_SIMILARITY
    return index.keys[one] == index.keys[other]


def tokens(text: str) -> int:
    """Estimate the tokens of a text: 4 characters each, 2 beyond Latin, 1 in East Asian ones."""
    if text.isascii():
        return (len(text) + 3) // 4
    wide = sum(1 for character in text if ord(character) > 0x2E7F)
    middle = sum(1 for character in text if 0x24F < ord(character) <= 0x2E7F)
    return (len(text) - wide - middle + 3) // 4 + (middle + 1) // 2 + wide
