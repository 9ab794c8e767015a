"""The relevance floor of a set of lessons under one embedder.

An absolute threshold is right for one model only (MiniLM: unrelated texts stay
under 0.25, e5: over 0.8). So what all everyday messages share is subtracted from
every vector, which also tells look-alikes apart better, and the floor is what small
talk does not reach: the 99th percentile of the best scores of sixty everyday messages,
estimated from their mean and spread (their highest would hang on one odd message).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lessons_loop.filter.embed import Embedder, Purpose, Vectors
from lessons_loop.filter.lexical import build_lexical, score_lexical
from lessons_loop.filter.models import Curated
from lessons_loop.filter.recall import LEXICAL_SHARE
from lessons_loop.filter.recall_index import centre
from lessons_loop.promote.embedding.everyday import everyday_messages

DEVIATIONS = 2.33
"""Standard deviations from a mean to the 99th percentile."""
MARGIN = 0.02
LEAST_FLOOR = 0.15
"""Below it a few lessons about one narrow subject would let anything in."""
LEAST_LEXICAL_FLOOR = 0.08


class Calibration(NamedTuple):
    """What the published file tells recall about its scores; `mean` is to be subtracted."""

    floor: float | None
    lexical_floor: float
    mean: tuple[float, ...]


def calibrate(
    lessons: Sequence[Curated], vectors: Vectors | None, embedder: Embedder | None
) -> Calibration:
    """Return the floors for these lessons; without vectors only the lexical one.

    `vectors` are the lessons' unit rows, shape (len(lessons), dimension). Raises EmbedError.
    """
    lexical = build_lexical(curated.lesson.searched_text for curated in lessons)
    words = np.array([score_lexical(lexical, message) for message in everyday_messages()])
    if not len(lessons):
        return Calibration(None, LEAST_LEXICAL_FLOOR, ())
    word_floor = floor_of(words.max(axis=1), LEAST_LEXICAL_FLOOR)
    if vectors is None or embedder is None or not vectors.size:
        return Calibration(None, word_floor, ())
    messages = embedder.embed(everyday_messages(), Purpose.QUERY)
    mean = messages.mean(axis=0).astype(np.float32)
    cosines = centre(messages, mean) @ centre(vectors, mean).T
    joined = (cosines + LEXICAL_SHARE * words).max(axis=1)
    return Calibration(floor_of(joined, LEAST_FLOOR), word_floor, tuple(map(float, mean)))


def floor_of(best: Vectors, least: float) -> float:
    """Return the score that small talk stays under, never less than `least`."""
    return round(max(least, float(best.mean() + DEVIATIONS * best.std()) + MARGIN), 4)
