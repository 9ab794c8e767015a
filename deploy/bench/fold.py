"""Folding measured: 100,000 events from staging into the register and curated's counters.

Everything counts: reading them from Chroma, checking, journal, register, deleting them.
And decay on simulated thumbs: how many good lessons it loses, when it finds a bad one.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lessons_loop.deploy.bench.figures import Figure, spread
from lessons_loop.deploy.bench.store import RandomEmbedder, made_up_lessons
from lessons_loop.filter.events import Rating, Usage
from lessons_loop.filter.store import (
    StorePaths,
    append_records,
    collection_names,
    staging_session,
)
from lessons_loop.promote.decay.fold import fold_events
from lessons_loop.promote.decay.rules import DecayRules, State, judgements, standings
from lessons_loop.promote.decay.uses import Use
from lessons_loop.promote.exchange.intake import take_in
from lessons_loop.promote.records import Actor
from lessons_loop.promote.session import GateSettings, open_gate

DOMAIN = "bench"
START = datetime(2026, 11, 1, 8, tzinfo=UTC)
LESSONS, USERS, SHOWN = 1_000, 500, 5
RATED = 5
"""Every fifth answer gets a thumb."""


def fold_figures(events: int = 100_000) -> list[Figure]:
    """Return seconds of one fold of so many events, and of a run after it without any.

    The snapshot before it is a figure of its own.
    """
    with tempfile.TemporaryDirectory(prefix="lessons-bench-") as folder:
        settings = GateSettings(folder, DOMAIN, embedder=RandomEmbedder())
        keys = _stocked(settings)
        _stage(Path(folder), made_up_events(keys, events))
        before, took = _timed_fold(settings, events)
        _, again = _timed_fold(settings, 0)
    return [
        spread(f"fold of {events:,} events", [took], "≤ 30 s", "s"),
        spread("snapshot before it", [before], unit="s"),
        spread("fold without an event, after them", [again], unit="s"),
    ]


def made_up_events(keys: Sequence[str], count: int) -> list[Usage | Rating]:
    """Return uses of five lessons each by 500 users, a thumb for each fifth."""
    dice = random.Random(7)
    events: list[Usage | Rating] = []
    number = 0
    while len(events) < count:
        at = (START + timedelta(seconds=20 * number)).isoformat()
        mine = {"message_ref": f"message-{number}", "at": at}
        user = f"user-{dice.randrange(USERS)}"
        shown = tuple(dice.sample(keys, SHOWN))
        events.append(Usage(keys=shown, user_ref=user, outcome="stop", tools="ok", **mine))
        if number % RATED == 0:
            thumb = "up" if dice.random() < 0.7 else "down"
            events.append(Rating.build(outcome=thumb, user_ref=user, **mine))
        number += 1
    return events[:count]


def _stocked(settings: GateSettings) -> list[str]:
    rows = [(row.lesson, f"seed-{n}") for n, row in enumerate(made_up_lessons(LESSONS))]
    with open_gate(settings) as session:
        take_in(session, rows, Actor(kind="seed", name=DOMAIN))
        return list(session.curated)


def _stage(root: Path, events: Sequence[Usage | Rating]) -> None:
    name = collection_names(DOMAIN)["events"]
    with staging_session(StorePaths(root)) as client:
        for start in range(0, len(events), 5_000):
            append_records(
                client, name, [event.to_record() for event in events[start : start + 5_000]]
            )


def _timed_fold(settings: GateSettings, wanted: int) -> tuple[float, float]:
    with open_gate(settings) as session:
        began = time.perf_counter()
        session.prepare()
        started = time.perf_counter()
        found = fold_events(session)
        seconds = time.perf_counter() - started
    if found.events != wanted:
        raise AssertionError(f"folded {found.events} of {wanted} events")
    return started - began, seconds


def decay_figures(pools: int = 20) -> list[Figure]:
    """Return how decay does on pools of lessons whose answers get 70 % thumbs up.

    Pools of 100, 200 answers that show five each, a look after every twenty; then with one
    lesson whose answers get 20 %, until it is found, at most 2,000 answers.
    """
    good = {
        chance: [float(len(simulated(seed, 100, 200, chance=chance))) for seed in range(pools)]
        for chance in (DecayRules().max_chance, 0.01, 1.0)
    }
    bad = [simulated(100 + seed, 100, 2_000, bad="7") for seed in range(pools)]
    seen = [float(found["7"]) for found in bad if "7" in found]
    lost = [float(len(found.keys() - {"7"})) for found in bad]
    return [
        *(
            spread(f"good lost, chance {one:g}", lost_, unit="of 100")
            for one, lost_ in good.items()
        ),
        spread("judged answers until a bad one is out", seen or [float("nan")], unit=""),
        spread("good lessons lost meanwhile", lost, unit=""),
    ]


def simulated(
    seed: int, size: int, answers: int, bad: str = "", chance: float = DecayRules().max_chance
) -> dict[str, int]:
    """Return the lessons taken out, with how many answers had shown each until then."""
    dice = random.Random(seed)
    live, gone, uses = [str(n) for n in range(size)], dict[str, int](), list[Use]()
    for number in range(answers):
        first = dice.randrange(len(live))
        shown = tuple((live + live[:SHOWN])[first : first + SHOWN])
        rating = "up" if dice.random() < (0.2 if bad in shown else 0.7) else "down"
        uses.append(_use(number, f"user-{dice.randrange(20)}", shown, rating))
        if number % 20 == 19:
            for key in _failing(uses, live, gone, DecayRules(max_chance=chance)):
                live.remove(key)
                gone[key] = sum(key in use.keys for use in uses)
        if bad and bad in gone:
            break
    return gone


def _failing(
    uses: Sequence[Use], live: Sequence[str], gone: dict[str, int], rules: DecayRules
) -> list[str]:
    since = dict.fromkeys(live, "2026-10-01T00:00:00Z")
    found = standings(judgements(uses, since, by_tools=False), rules, frozenset(gone))
    return [key for key, one in found.items() if one.state is State.FAILING]


def _use(number: int, user: str, shown: tuple[str, ...], rating: str) -> Use:
    at = (START + timedelta(hours=2 * number)).isoformat()
    fields = {"user_ref": user, "at": at, "keys": shown, "rating": rating, "rated_at": at}
    return Use.model_validate({"id": str(number), "message_ref": str(number)} | fields)
