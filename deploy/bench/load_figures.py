"""From asked questions to figures: added latency in pairs, failures by arm, and what is wanted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lessons_loop.deploy.bench.load_users import Asked

DRAWS = 2_000
SEED = 5
CPU_MOST = 0.60
"""Above it people wait for processors, not for the plugin."""
ADDED_MOST_MS = 30.0
RECOVERY_MOST_S = 30.0
GROWTH_MOST_MB = 20.0
Numbers = npt.NDArray[np.float64]


class Row(NamedTuple):
    """One line of the table."""

    figure: str
    reached: str
    wanted: str = ""
    holds: bool | None = None
    """Whether it is reached; None where nothing is wanted."""


class Interval(NamedTuple):
    """A value and where 95 % of its bootstrap copies lie."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return it in milliseconds."""
        return f"{self.value:+.1f} ms ({self.low:+.1f} to {self.high:+.1f})"


def differences(asked: Sequence[Asked], seconds: Callable[[Asked], float]) -> list[Numbers]:
    """Return each person's differences in ms, with the plugin minus without; whole pairs only."""
    pairs: dict[tuple[int, int], dict[bool, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in asked:
        if not one.failed:
            pairs[one.user, one.pair][one.plugin].append(seconds(one))
    found: dict[int, list[float]] = defaultdict(list)
    for (user, _), arms in pairs.items():
        if len(arms[True]) == len(arms[False]) == 1:
            found[user].append(1000 * (arms[True][0] - arms[False][0]))
    return [np.array(values) for values in found.values()]


def median_added(by_person: Sequence[Numbers]) -> Interval:
    """Return the median difference; people are drawn, not questions: theirs are alike."""
    chance = np.random.default_rng(SEED)
    draws = [
        np.median(np.concatenate([by_person[n] for n in drawn]))
        for drawn in chance.integers(0, len(by_person), (DRAWS, len(by_person)))
    ]
    low, high = np.percentile(draws, [2.5, 97.5])
    return Interval(float(np.median(np.concatenate(by_person))), float(low), float(high))


def quantile_added(
    asked: Sequence[Asked], seconds: Callable[[Asked], float], share: float
) -> Interval:
    """Return by how much a quantile is higher with the plugin than without."""
    arms: dict[bool, dict[int, list[float]]] = {True: defaultdict(list), False: defaultdict(list)}
    for one in asked:
        if not one.failed:
            arms[one.plugin][one.user].append(1000 * seconds(one))
    people = sorted(arms[True].keys() & arms[False].keys())
    chance = np.random.default_rng(SEED)

    def added(drawn: Iterable[int]) -> float:
        chosen = list(drawn)
        told = [
            np.quantile(np.concatenate([arms[plugin][person] for person in chosen]), share)
            for plugin in (True, False)
        ]
        return float(told[0] - told[1])

    draws = [added(chance.choice(people, len(people))) for _ in range(DRAWS // 10)]
    low, high = np.percentile(draws, [2.5, 97.5])
    return Interval(added(people), float(low), float(high))


def latency_rows(asked: Sequence[Asked], busy: float) -> list[Row]:
    """Return the added latency to the first token and to the whole answer."""
    rows = []
    for name, seconds in (("first token", first_of), ("whole answer", whole_of)):
        by_person = differences(asked, seconds)
        if not by_person:
            rows.append(Row(f"added to the {name}", "no whole pair", "", False))
            continue
        pairs = sum(map(len, by_person))
        middle = median_added(by_person)
        wanted = f"median <= {ADDED_MOST_MS:.0f} ms" if name == "first token" else ""
        holds = middle.value <= ADDED_MOST_MS and busy < CPU_MOST if wanted else None
        rows.append(
            Row(f"added to the {name}, median of {pairs} pairs", str(middle), wanted, holds)
        )
        for share in (0.9, 0.99):
            told = str(quantile_added(asked, seconds, share))
            rows.append(Row(f"  p{100 * share:.0f} with minus p{100 * share:.0f} without", told))
    return rows


def first_of(one: Asked) -> float:
    """Return the seconds to the first token."""
    return one.first


def whole_of(one: Asked) -> float:
    """Return the seconds to the end of the answer."""
    return one.whole


class Failures(NamedTuple):
    """Failed chats of a stretch of time, by arm and whether the connection was cut off."""

    asked: dict[bool, int]
    cut: dict[bool, int]
    other: dict[bool, int]
    reasons: tuple[str, ...]
    """Of the chats with the plugin that were not cut off."""

    def __str__(self) -> str:
        """Return both arms in words."""
        arms = [
            f"{self.cut[plugin] + self.other[plugin]} of {self.asked[plugin]} {name}"
            for plugin, name in ((True, "with"), (False, "without"))
        ]
        return ", ".join(arms)


def failures(asked: Sequence[Asked], began: float, ended: float) -> Failures:
    """Count the failed chats that were held at some moment between the two."""
    held = [one for one in asked if one.began <= ended and one.began + one.lasted >= began]
    count = {
        plugin: [one for one in held if one.plugin is plugin and one.failed]
        for plugin in (True, False)
    }
    cut = {plugin: sum(one.failed == "connection" for one in count[plugin]) for plugin in count}
    return Failures(
        {plugin: sum(one.plugin is plugin for one in held) for plugin in count},
        cut,
        {plugin: len(count[plugin]) - cut[plugin] for plugin in count},
        tuple(sorted({one.failed for one in count[True] if one.failed != "connection"})),
    )


def growth_row(name: str, growth: Mapping[int, float], seconds: float, most: float = 0.0) -> Row:
    """Return how much the workers grew."""
    told = ", ".join(f"{value:+.1f}" for value in growth.values()) or "no worker"
    wanted = f"<= {most:.0f} MB each" if most else ""
    holds = bool(growth) and max(growth.values()) <= most if most else None
    return Row(f"{name}, in {seconds:.0f} s", f"{told} MB", wanted, holds)
