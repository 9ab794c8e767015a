"""Which lessons stopped helping: pure, from the use register.

A judgement is one user's last word on a lesson on one day (UTC, of the answer): of several
answers the newest one counts. A lesson is *failing* when all of this holds:

- `min_hits` judgements of at least 2 users or more, all since it was last promoted or revived;
- fewer than `min_success_rate` of them went well, and no more than that without any one user;
- so did fewer than among the domain's other lessons, in answers that did not show this one
  (in all answers, where there are no others). This is the base rate;
- chance does not explain it: a lesson of base rate does so badly with a probability of at most
  `max_chance` (exact binomial; the base is smoothed as (went well + 1) / (judged + 2), so that
  few judgements of others prove little). 1 switches this off.

Where the last one or the word of a single user stands against that, it is *watched*:
a person is told. An answer shows several lessons and one thumb is for all of them. So the
worst lesson (lowest upper bound) is blamed first, and its answers are left out for the others.
Not covered: two bad lessons always shown together; the second is tested once it is shown alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from enum import StrEnum
from math import exp, fsum, lgamma, log, log1p, sqrt
from typing import NamedTuple

from lessons_loop.promote.clock import parse_iso
from lessons_loop.promote.decay.judged import judged
from lessons_loop.promote.decay.uses import Use

USERS = 2
BOUND_Z = 1.96
"""Standard deviations of the bounds that are shown: 95 %."""


class DecayRules(NamedTuple):
    """When a lesson is failing."""

    min_hits: int = 3
    """Judgements needed."""
    min_success_rate: float = 0.5
    by_tools: bool = False
    """Let the results of tools judge answers without a thumb."""
    max_chance: float = 0.05
    """Greatest probability that a lesson of base rate does so badly; 1: any will do.

    Without it a lesson that helps 7 times in 10 would go at its third thumb once in five.
    """


class State(StrEnum):
    """How a lesson is doing."""

    UNTESTED = "untested"
    """Too few judgements, or of one user only: never touched."""
    WELL = "well"
    WATCHED = "watched"
    FAILING = "failing"


class Judgement(NamedTuple):
    """One user's word on a lesson on one day."""

    key: str
    user: str
    day: str
    good: bool
    shown: frozenset[str]
    """All lessons of that answer."""


class Standing(NamedTuple):
    """How one lesson did."""

    key: str
    state: State
    judged: int
    good: int
    users: int
    base_judged: int
    """Judgements the base rate rests on."""
    base_good: int
    why: str
    """One sentence with the numbers."""

    @property
    def rate(self) -> float | None:
        """Share that went well, None while nothing was judged."""
        return self.good / self.judged if self.judged else None

    @property
    def base_rate(self) -> float | None:
        """The same of the domain's other lessons."""
        return self.base_good / self.base_judged if self.base_judged else None

    @property
    def bounds(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the rate."""
        return wilson(self.good, self.judged)


def judgements(uses: Iterable[Use], since: Mapping[str, str], *, by_tools: bool) -> list[Judgement]:
    """Return what counts of the judged uses; `since` is when each curated lesson began."""
    starts = {key: parse_iso(at) for key, at in since.items()}
    newest: dict[tuple[str, str, str], tuple[tuple[datetime, str], Judgement]] = {}
    for use in uses:
        moment = parse_iso(use.at)
        if moment is None:
            continue
        order, day = (moment, use.id), moment.date().isoformat()
        for key, good in judged(use, by_tools=by_tools).items():
            start = starts.get(key)
            if key not in starts or (start is not None and moment < start):
                continue
            place = (key, use.user_ref, day)
            if place not in newest or newest[place][0] < order:
                word = Judgement(key, use.user_ref, day, good, frozenset(use.keys))
                newest[place] = (order, word)
    return [word for _, word in newest.values()]


def standings(
    words: Sequence[Judgement], rules: DecayRules, blamed: Set[str] = frozenset()
) -> dict[str, Standing]:
    """Return how each judged lesson did, by key; answers that showed a `blamed` one are left out.

    Failing lessons are found one by one, the worst first, each blamed for its answers.
    """
    gone, failing = set(blamed), dict[str, Standing]()
    while True:
        left = [word for word in words if not (word.shown - {word.key}) & gone]
        pool = Pool(left)
        found = {key: _standing(pool, key, rules) for key in pool.keys}
        bad = [one for one in found.values() if one.state is State.FAILING and one.key not in gone]
        if not bad:
            return {key: _untested(key) for key in {word.key for word in words}} | found | failing
        worst = min(bad, key=lambda one: (one.bounds[1], one.key))
        failing[worst.key] = worst
        gone.add(worst.key)


class Pool:
    """Judgements, counted once so that each lesson can be held against the others."""

    def __init__(self, words: Sequence[Judgement]) -> None:
        self.of: dict[str, list[Judgement]] = {}
        self.beside: dict[str, list[bool]] = {}
        """For each lesson what others' judgements say in answers that showed it too."""
        self.judged, self.good = len(words), sum(word.good for word in words)
        for word in words:
            self.of.setdefault(word.key, []).append(word)
            for key in word.shown - {word.key}:
                self.beside.setdefault(key, []).append(word.good)

    @property
    def keys(self) -> Iterator[str]:
        """Return the judged lessons."""
        return iter(self.of)

    def base(self, key: str) -> tuple[int, int]:
        """Return how many judgements of other lessons there are, and how many went well."""
        own, beside = self.of[key], self.beside.get(key, [])
        judged_, good = self.judged - len(own), self.good - sum(word.good for word in own)
        if judged_ > len(beside):
            return judged_ - len(beside), good - sum(beside)
        return judged_, good


def is_tested(words: Sequence[Judgement], least: int) -> bool:
    """Say whether there are `least` judgements and two users."""
    return len(words) >= max(1, least) and len({word.user for word in words} - {""}) >= USERS


def chance(good: int, judged_: int, rate: float) -> float:
    """Return the probability of at most `good` of `judged_` at this rate."""
    if good >= judged_ or not 0 < rate < 1:
        return float(rate <= 0 or good >= judged_)
    # logarithms: from 1,030 judgements on a coefficient is no float any more
    yes, no, all_ = log(rate), log1p(-rate), lgamma(judged_ + 1)
    terms = (
        exp(all_ - lgamma(k + 1) - lgamma(judged_ - k + 1) + k * yes + (judged_ - k) * no)
        for k in range(good + 1)
    )
    return min(1.0, fsum(terms))


def wilson(good: int, judged_: int, z: float = BOUND_Z) -> tuple[float, float]:
    """Return Wilson's score interval of a share; the whole range where nothing was judged."""
    if judged_ == 0:
        return 0.0, 1.0
    share, square = good / judged_, z * z / judged_
    middle = share + square / 2
    reach = z * sqrt(share * (1 - share) / judged_ + square / (4 * judged_))
    return max(0.0, (middle - reach) / (1 + square)), min(1.0, (middle + reach) / (1 + square))


def _standing(pool: Pool, key: str, rules: DecayRules) -> Standing:
    words = pool.of[key]
    base = pool.base(key)
    good = sum(word.good for word in words)
    users = {word.user for word in words} - {""}
    state, why = _state(words, good, base, rules)
    return Standing(key, state, len(words), good, len(users), *base, why)


def _state(
    words: Sequence[Judgement], good: int, base: tuple[int, int], rules: DecayRules
) -> tuple[State, str]:
    others, well = base
    told = f"{good} of {len(words)} judged uses went well"
    if not is_tested(words, rules.min_hits):
        return State.UNTESTED, told
    told += f" ({_percent(good, len(words))}), of other lessons' {_percent(well, others)}"
    floor = rules.min_success_rate
    under_base = others == 0 or good / len(words) < well / others
    if good / len(words) >= floor or not under_base:
        return State.WELL, told
    if others == 0:
        return State.WATCHED, f"{told}: no other lesson was judged"
    if not _also_without_one(words, floor):
        return State.WATCHED, f"{told}: one user alone makes the difference"
    if chance(good, len(words), (well + 1) / (others + 2)) > rules.max_chance:
        return State.WATCHED, f"{told}: that may be chance"
    return State.FAILING, f"{told}, under {floor:.0%}"


def _also_without_one(words: Sequence[Judgement], floor: float) -> bool:
    """Say whether the rate does not exceed the floor without any one user."""
    counts, goods = Counter[str](), Counter[str]()
    for word in words:
        counts[word.user] += 1
        goods[word.user] += word.good
    good = goods.total()
    left = ((good - goods[user], len(words) - count) for user, count in counts.items())
    return all(count and well / count <= floor for well, count in left)


def _percent(good: int, judged_: int) -> str:
    return f"{good / judged_:.0%}" if judged_ else "none"


def _untested(key: str) -> Standing:
    why = "judged only beside a lesson that is blamed for it"
    return Standing(key, State.UNTESTED, 0, 0, 0, 0, 0, why)
