"""Choose the few curated lessons that fit a question: pure, no I/O.

Score = cosine of the question's best part with `trigger + text`, plus a share of
lexical evidence; a follow-up takes its topic from the turns before it. A relevance
floor keeps small talk clean; it cannot tell a same-topic question that no lesson
answers, so the block lets the model decline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.lexical import (
    LexicalIndex,
    Scores,
    build_lexical,
    score_lexical,
    score_turns,
)
from lessons_loop.filter.models import Curated
from lessons_loop.filter.published import PublishedSet
from lessons_loop.filter.question import FollowUp

LEXICAL_SHARE = 0.3
LEXICAL_FLOOR = 0.2
"""Floor of the lexical half alone, where a published file brings none of its own."""
DEFAULT_FLOOR = 0.3
TWIN_SIMILARITY = 0.93
"""Cosine from which two lessons repeat or contradict each other (negations: 0.93 measured)."""
STICKY_SHARE = 0.5
BEHIND_BEST = 0.6
"""Share of the best score a lesson needs to be shown beside it; up to 0.65 costs no right one."""
FOLLOW_UP_LEXICAL_SHARE = 0.5
"""A follow-up has few words, often just the decisive one; from 0.5 to 0.7 nothing changes."""
LAST_TURN_SHARE = 1.0
"""Weight of a follow-up's own words beside its topic; from 0.7 to 1.3 the order stays the same."""
LEAST_LEANING = 1.0
"""Standard deviations above the mean of all lessons from which the last turn goes on."""
STAY_MARGIN = 0.1
"""How much better than the best shown lesson a new one must fit before a full block changes.

Short follow-ups make near-equals swap places (measured: by up to 0.06; a lesson for what is newly
asked leads by 0.2 and more), and each change costs the provider's prompt cache the whole chat.
"""
ROOM_MARGIN = 0.05
"""The same where the block has room, so that nothing leaves for the new lesson."""
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


def score(
    index: RecallIndex,
    texts: Sequence[str],
    vectors: Vectors | None,
    follow_up: FollowUp | None = None,
) -> Scores:
    """Return each lesson's score, shape (n,): its best over the texts, or a follow-up's.

    `vectors` are the texts' unit rows; None scores by words alone.
    """
    if follow_up is not None:
        return score_follow_up(index, texts, vectors, follow_up)
    lexical: Scores = np.max([score_lexical(index.lexical, text) for text in texts], axis=0)
    if vectors is None:
        return lexical
    dense = np.max(cosines(index, vectors), axis=0)
    joined: Scores = (dense + LEXICAL_SHARE * lexical).astype(np.float32)
    return joined


def score_follow_up(
    index: RecallIndex, texts: Sequence[str], vectors: Vectors | None, follow_up: FollowUp
) -> Scores:
    """Return a follow-up's scores: the topic comes from before, the choice from the last turn.

    `texts` are the last turn, it with the user's turns, it with all turns. Where the
    last turn does not lean towards what the topic brings, the topic has changed.
    """
    turns = score_turns(index.lexical, follow_up.turns)
    if vectors is None:
        return turns
    last, own, everything = cosines(index, vectors)
    words = score_lexical(index.lexical, texts[0])
    alone = last + LEXICAL_SHARE * words
    leaning = last + FOLLOW_UP_LEXICAL_SHARE * words
    leaning -= leaning.mean()
    topic = (own + everything) / 2 + FOLLOW_UP_LEXICAL_SHARE * turns + LAST_TURN_SHARE * leaning
    goes_on = leaning[int(np.argmax(topic))] >= LEAST_LEANING * float(leaning.std())
    joined: Scores = np.maximum(alone, topic) if goes_on or follow_up.certain else alone
    return joined.astype(np.float32)


def cosines(index: RecallIndex, vectors: Vectors) -> list[Scores]:
    """Return the lessons' cosines with each unit row, what all texts share left out.

    One product per row keeps BLAS on its vector path: 0.6 ms at 10,000 lessons.
    """
    found = []
    for row in centre(vectors, index.mean):
        shared = float(index.mean @ row) if index.mean.size else 0.0
        found.append((np.einsum("nd,d->n", index.vectors, row) - shared) / index.norms)
    return found


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

    `shown` are keys this chat has seen: they stay as they are until a new lesson
    fits clearly better. Then they keep their place while they score above half the
    floor; new ones come behind, ordered by key, so that the same lessons always give
    the same bytes (ties in scores would not).
    """
    wanted = best_places(scores, floor, 40 * max(top_k, 1))
    known = [index.places[key] for key in shown if key in index.places]
    fresh = _fitting(index, wanted, top_k, token_budget) if known else []
    joined = _fitting(index, [*known, *fresh], top_k, token_budget)
    whole = joined[: len(known)] == known  # the admin's limits may be lower now
    room = whole and len(joined) > len(known)
    margin = ROOM_MARGIN if room else STAY_MARGIN
    if whole and stays(index, scores, known, fresh, floor, margin):
        return tuple(index.lesson(place) for place in known)
    keep = sorted(
        (p for p in known if scores[p] >= STICKY_SHARE * floor and (room or p not in wanted)),
        key=lambda place: -float(scores[place]),
    )
    order = [*keep, *fresh] if room else [*wanted, *keep]
    chosen = _fitting(index, order, top_k, token_budget)
    seats = {key: seat for seat, key in enumerate(shown)}
    ordered = sorted(chosen, key=lambda p: (seats.get(index.keys[p], len(seats)), index.keys[p]))
    return tuple(index.lesson(place) for place in ordered)


def stays(
    index: RecallIndex,
    scores: Scores,
    known: Sequence[int],
    fresh: Sequence[int],
    floor: float,
    margin: float,
) -> bool:
    """Say whether the shown lessons do for this question; `fresh` is what it would get anew.

    A lesson that says otherwise than a shown one always counts as better.
    """
    best = max((float(scores[place]) for place in known), default=-1.0)
    new = [place for place in fresh if place not in known]
    if not new:
        return best >= STICKY_SHARE * floor
    if best < floor or any(twins(index, place, other) for place in new for other in known):
        return False
    return float(scores[new[0]]) <= best + margin


def best_places(scores: Scores, floor: float, most: int) -> list[int]:
    """Return the positions at or above the floor and not far behind the best, best first."""
    least = max(floor, BEHIND_BEST * float(scores.max(initial=0.0)))
    above = np.flatnonzero(scores >= least)
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
