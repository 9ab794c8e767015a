"""Choose the few curated lessons that fit a question: pure, no I/O.

Score = cosine of the question's best part with `trigger + text`, plus a share of
lexical evidence; a follow-up takes its topic from the turns before it. A relevance
floor keeps small talk clean; it cannot tell a same-topic question that no lesson
answers, so the block lets the model decline.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.lexical import Scores, score_lexical, score_turns, terms
from lessons_loop.filter.models import Curated
from lessons_loop.filter.question import FollowUp
from lessons_loop.filter.recall_index import RecallIndex, cosines, twins

LEXICAL_SHARE = 0.3
STICKY_SHARE = 0.6
"""Share of the floor that keeps what is shown; 0.5 keeps it through more everyday turns."""
BEHIND_BEST = 0.6
"""Share of the best score a lesson needs to be shown beside it; up to 0.65 costs no right one."""
FOLLOW_UP_LEXICAL_SHARE = 0.5
"""A follow-up has few words, often just the decisive one; from 0.5 to 0.7 nothing changes."""
LAST_TURN_SHARE = 1.0
"""Weight of a follow-up's own words beside its topic; from 0.7 to 1.3 the order stays the same."""
TOPIC_SHARE = 0.6
"""What the topic counts in how good a follow-up's best lesson is."""
LEAST_LEANING = 1.0
"""Standard deviations above the mean of all lessons from which the last turn goes on."""
LEAST_OWN = 0.6
"""Share of the floor that its own words must reach to go on without pointing back."""
STAY_MARGIN = 0.15
"""How much better than the best shown lesson a new one must fit before a full block changes.

Short follow-ups make near-equals swap places, and each change costs the provider's prompt
cache the whole chat. Measured on ten-turn chats against 0.1: two to three points more of the
prompt repeated, and the best lesson shown as often; 0.2 loses it on one turn in thirty more.
"""
ROOM_MARGIN = 0.12
"""The same where the block has room, so that nothing leaves for the new lesson."""
RECORD_SHARE = 0.01
"""Most that what users said of two lessons counts between them: less than rewording one does."""
NEWCOMERS = 2
"""Lessons that push others out at one change: what served the chat so far often serves again."""


class Judged(NamedTuple):
    """What a question's texts say about the lessons."""

    scores: Scores
    goes_on: bool
    """Say whether the turns before it still count."""


def score(
    index: RecallIndex,
    texts: Sequence[str],
    vectors: Vectors | None,
    follow_up: FollowUp | None = None,
) -> Scores:
    """Return each lesson's score, shape (n,)."""
    return judge(index, texts, vectors, follow_up).scores


def judge(
    index: RecallIndex,
    texts: Sequence[str],
    vectors: Vectors | None,
    follow_up: FollowUp | None = None,
) -> Judged:
    """Return each lesson's score: its best over the texts, or a follow-up's.

    `vectors` are the texts' unit rows; None scores by words alone.
    """
    if follow_up is not None:
        return judge_follow_up(index, texts, vectors, follow_up)
    lexical: Scores = np.max([score_lexical(index.lexical, text) for text in texts], axis=0)
    if vectors is None:
        return Judged(lexical, goes_on=True)
    dense = np.max(cosines(index, vectors), axis=0)
    joined: Scores = (dense + LEXICAL_SHARE * lexical).astype(np.float32)
    return Judged(joined, goes_on=True)


def judge_follow_up(
    index: RecallIndex, texts: Sequence[str], vectors: Vectors | None, follow_up: FollowUp
) -> Judged:
    """Return a follow-up's scores: the topic comes from before, the choice from the last turn.

    `texts` are the last turn, it with the user's turns, it with all turns. Topic and
    choice add up to the order; how good the best one is, is their mean, which can be
    held against the floor of single messages. Where the last turn does not lean
    towards what the topic brings, the topic has changed.
    """
    turns = score_turns(index.lexical, follow_up.turns)
    if vectors is None:
        return Judged(turns, goes_on=True)
    last, own, everything = cosines(index, vectors)
    words = score_lexical(index.lexical, texts[0])
    alone = last + LEXICAL_SHARE * words
    leaning = last + FOLLOW_UP_LEXICAL_SHARE * words
    leaning -= leaning.mean()
    before = (own + everything) / 2
    topic = before + FOLLOW_UP_LEXICAL_SHARE * turns + LAST_TURN_SHARE * leaning
    best = int(np.argmax(topic))
    leans = leaning[best] >= LEAST_LEANING * float(leaning.std())
    if not follow_up.certain and not (leans and alone[best] >= LEAST_OWN * index.floor):
        return Judged(alone.astype(np.float32), goes_on=False)
    brought = before[best] + LEXICAL_SHARE * turns[best]
    level = TOPIC_SHARE * brought + (1 - TOPIC_SHARE) * alone[best]
    joined: Scores = ((topic - topic[best]) / 2 + level).astype(np.float32)
    return Judged(joined, goes_on=True)


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

    `shown` are the keys this chat shows now: they stay as they are until a new lesson
    fits clearly better. Then few come in and few go; new ones come behind, ordered by
    key, so that the same lessons always give the same bytes (ties in scores would not).
    """
    known = [index.places[key] for key in shown if key in index.places]
    best = best_places(scores, floor, 40 * max(top_k, 1))
    fresh = _fitting(index, by_record(index, scores, best, top_k), top_k, token_budget)
    new = [place for place in fresh if place not in known]
    joined = _fitting(index, [*known, *new[:1]], top_k, token_budget)
    whole = joined[: len(known)] == known  # the admin's limits may be lower now
    room = whole and len(joined) > len(known)
    margin = ROOM_MARGIN if room else STAY_MARGIN
    if known and whole and stays(index, scores, known, new, floor, margin):
        return tuple(index.lesson(place) for place in known)
    keep = [place for place in known if scores[place] >= STICKY_SHARE * floor]
    keep.sort(key=lambda place: -float(scores[place]))
    leading = [] if room else [*contradicting(index, new, known), *new[:NEWCOMERS]]
    order = dict.fromkeys([*leading, *keep, *fresh])
    chosen = _fitting(index, order, top_k, token_budget)
    seats = {key: seat for seat, key in enumerate(shown)}
    ordered = sorted(chosen, key=lambda p: (seats.get(index.keys[p], len(seats)), index.keys[p]))
    return tuple(index.lesson(place) for place in ordered)


def stays(
    index: RecallIndex,
    scores: Scores,
    known: Sequence[int],
    new: Sequence[int],
    floor: float,
    margin: float,
) -> bool:
    """Say whether the shown lessons do for this question; `new` are what it would get beside.

    A lesson that says otherwise than a shown one always counts as better.
    """
    best = max(float(scores[place]) for place in known)
    if not new:
        return best >= STICKY_SHARE * floor
    if best < floor or contradicting(index, new, known):
        return False
    return float(scores[new[0]]) <= best + margin


def contradicting(index: RecallIndex, new: Sequence[int], known: Sequence[int]) -> list[int]:
    """Return the new lessons that repeat or contradict a shown one."""
    return [place for place in new if any(twins(index, place, other) for other in known)]


def rivals(index: RecallIndex, one: int, other: int) -> bool:
    """Say whether two lessons repeat or contradict each other for one and the same trigger.

    Look-alikes for different triggers (a setting on or off) are shown side by side: their
    scores are too near to leave the choice to the order, the triggers tell the model.
    """
    if not twins(index, one, other):
        return False
    first, second = (index.lesson(place).lesson.trigger for place in (one, other))
    return terms(first) == terms(second)


def best_places(scores: Scores, floor: float, most: int) -> list[int]:
    """Return the positions at or above the floor and not far behind the best, best first."""
    least = max(floor, BEHIND_BEST * float(scores.max(initial=0.0)))
    above = np.flatnonzero(scores >= least)
    if len(above) > most:
        above = above[np.argpartition(-scores[above], most)[:most]]
    return [int(place) for place in above[np.argsort(-scores[above], kind="stable")]]


def by_record(index: RecallIndex, scores: Scores, best: Sequence[int], top_k: int) -> Sequence[int]:
    """Put near-equal lessons in the order of their records, the best fitting few only.

    It decides between scores less than RECORD_SHARE apart, never what reaches the floor.
    A record is smoothed: few thumbs count little, none at all counts as half and half.
    """
    head, rest = best[: 2 * top_k], best[2 * top_k :]

    def joined(place: int) -> float:
        row = index.lesson(place)
        rate = (row.successes + 1) / (row.successes + row.failures + 2)
        return float(scores[place]) + RECORD_SHARE * (rate - 0.5)

    return [*sorted(head, key=joined, reverse=True), *rest]


def _fitting(index: RecallIndex, order: Iterable[int], top_k: int, token_budget: int) -> list[int]:
    chosen: list[int] = []
    used = 0
    for place in order:
        if len(chosen) >= top_k:
            break
        cost = int(index.costs[place])
        if used + cost <= token_budget and not any(rivals(index, place, c) for c in chosen):
            chosen.append(place)
            used += cost
    return chosen
