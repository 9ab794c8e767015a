"""Lessons that no question reaches: the product's own recall, asked with each lesson's trigger.

A lesson that is not among the chosen ones for the very situation it is about is hidden by
the floor, by look-alikes, by better fits or by the token budget. Not covered: questions in
other words than the trigger's may still reach it, or miss it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.lexical import Scores, score_lexical
from lessons_loop.filter.recall import LEXICAL_SHARE, rivals, select
from lessons_loop.filter.recall_index import RecallIndex, centre
from lessons_loop.promote.gathering import Progress, no_progress

BLOCK = 256
FLOOR, RIVAL, CROWDED, COSTLY = "floor", "look-alike", "crowded out", "too long"


class Limits(NamedTuple):
    """The plugin's settings that decide what is shown."""

    top_k: int
    token_budget: int
    floor: float | None = None
    """None: the calibrated one."""


class Unreached(NamedTuple):
    """A lesson its own trigger does not bring."""

    key: str
    cause: str
    score: float
    floor: float
    behind: tuple[str, ...] = ()
    """Keys of the lessons that were shown instead."""


def unreached(
    index: RecallIndex,
    embed: Callable[[list[str]], Vectors] | None,
    limits: Limits,
    progress: Progress = no_progress,
) -> list[Unreached]:
    """Return what its own trigger does not bring; `embed` gives questions' unit rows.

    None: lessons are compared by words alone, as chats without an embedding engine do.
    """
    dense = embed is not None and index.dimension > 0
    calibrated = index.floor if dense else index.lexical_floor
    floor = calibrated if limits.floor is None else limits.floor
    found = []
    for place, scores in _scored(index, embed if dense else None, progress):
        if (why := _missed(index, place, scores, floor, limits)) is not None:
            found.append(why)
    return found


def _scored(
    index: RecallIndex, embed: Callable[[list[str]], Vectors] | None, progress: Progress
) -> Iterator[tuple[int, Scores]]:
    """Yield each lesson with the scores of all lessons for its trigger, as `recall.judge` does."""
    for start in range(0, len(index.keys), BLOCK):
        places = range(start, min(start + BLOCK, len(index.keys)))
        progress("asking with triggers", start, len(index.keys))
        triggers = [index.lesson(place).lesson.trigger for place in places]
        near = _cosines(index, embed(triggers)) if embed else None
        for row, place in enumerate(places):
            words = score_lexical(index.lexical, triggers[row])
            yield place, words if near is None else near[row] + LEXICAL_SHARE * words


def _cosines(index: RecallIndex, questions: Vectors) -> Vectors:
    """Return `recall_index.cosines` of a block of questions in one product."""
    rows = centre(questions, index.mean)
    shared = rows @ index.mean if index.mean.size else np.zeros(len(rows), np.float32)
    found = (rows @ index.vectors.T - shared[:, None]) / index.norms
    return found.astype(np.float32, copy=False)


def _missed(
    index: RecallIndex, place: int, scores: Scores, floor: float, limits: Limits
) -> Unreached | None:
    own = float(scores[place])
    cost = int(index.costs[place])
    best = own >= floor and own >= float(scores.max())
    if best and limits.top_k > 0 and cost <= limits.token_budget:
        return None  # the best of all is always shown
    chosen = select(
        index, scores, floor=floor, top_k=limits.top_k, token_budget=limits.token_budget
    )
    keys = tuple(lesson.key for lesson in chosen)
    if index.keys[place] in keys:
        return None
    cause = _cause(index, place, own, floor, limits, keys)
    behind = keys if cause != FLOOR else ()
    return Unreached(index.keys[place], cause, round(own, 3), round(floor, 3), behind)


def _cause(
    index: RecallIndex, place: int, own: float, floor: float, limits: Limits, keys: tuple[str, ...]
) -> str:
    if own < floor:
        return FLOOR
    if int(index.costs[place]) > limits.token_budget:
        return COSTLY
    if any(rivals(index, place, index.places[key]) for key in keys):
        return RIVAL
    return CROWDED
