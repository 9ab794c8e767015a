"""The lessons of one or more domains, ready to be compared with questions.

What all everyday messages share (the mean in the published file) is left out of
every comparison; a file of another embedding model goes without vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.lexical import LexicalIndex, Scores, build_lexical
from lessons_loop.filter.models import Curated
from lessons_loop.filter.published import PublishedSet, published_lesson

LEXICAL_FLOOR = 0.2
"""Floor of the lexical half alone, where a published file brings none of its own."""
DEFAULT_FLOOR = 0.3
TWIN_SIMILARITY = 0.93
"""Cosine from which two lessons repeat or contradict each other (negations: 0.93 measured)."""
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
    """Unit rows, shape (n, dimension); dimension 0 where recall is lexical."""
    mean: npt.NDArray[np.float32]
    """What all texts have in common, subtracted before comparing; may be empty."""
    norms: npt.NDArray[np.float32]
    """Length of each row without the mean: a second, centred matrix would cost 15 MB at 10,000."""
    lexical: LexicalIndex
    floor: float
    lexical_floor: float

    def lesson(self, place: int) -> Curated:
        """Return one lesson."""
        return published_lesson(self.lines[place])

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
    vectors = joined_vectors(sets, dense=dense)
    floors = [s.header.floor for s in sets if s.header.floor is not None]
    lexical_floors = [s.header.lexical_floor for s in sets if s.header.lexical_floor is not None]
    return RecallIndex(
        lines=tuple(line for found in sets for line in found.lines),
        keys=keys,
        places={key: place for place, key in enumerate(keys)},
        costs=np.array([tokens(text) + LINE_OVERHEAD for text in words], np.int32),
        vectors=vectors,
        mean=mean,
        norms=norms_without(vectors, mean),
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


def norms_without(rows: Vectors, mean: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the lengths of unit rows after the mean is subtracted, without a copy of the rows."""
    if mean.size == 0 or rows.size == 0:
        return np.ones(len(rows), np.float32)
    squares = 1.0 - 2.0 * np.einsum("nd,d->n", rows, mean) + float(mean @ mean)
    norms: npt.NDArray[np.float32] = np.sqrt(np.maximum(squares, 1e-9)).astype(np.float32)
    return norms


def cosines(index: RecallIndex, vectors: Vectors) -> list[Scores]:
    """Return the lessons' cosines with each unit row, what all texts share left out.

    One product per row keeps BLAS on its vector path: 0.6 ms at 10,000 lessons.
    """
    found = []
    for row in centre(vectors, index.mean):
        shared = float(index.mean @ row) if index.mean.size else 0.0
        found.append((np.einsum("nd,d->n", index.vectors, row) - shared) / index.norms)
    return found


def twins(index: RecallIndex, one: int, other: int) -> bool:
    """Say whether two lessons repeat or contradict each other."""
    if index.dimension:
        first, second = centre(index.vectors[[one, other]], index.mean)
        return float(first @ second) >= TWIN_SIMILARITY
    return index.keys[one] == index.keys[other]


def tokens(text: str) -> int:
    """Estimate the tokens of a text: 4 characters each, 2 beyond Latin, 1 in East Asian ones."""
    if text.isascii():
        return (len(text) + 3) // 4
    wide = sum(1 for character in text if ord(character) > 0x2E7F)
    middle = sum(1 for character in text if 0x24F < ord(character) <= 0x2E7F)
    return (len(text) - wide - middle + 3) // 4 + (middle + 1) // 2 + wide
