"""The rows of `make bench-load`'s table, from what was measured and what the store holds then."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any, NamedTuple

import requests

from lessons_loop.deploy.bench.lessons import DOMAIN
from lessons_loop.deploy.bench.load_faults import REPLACED, Fault
from lessons_loop.deploy.bench.load_figures import (
    CPU_MOST,
    GROWTH_MOST_MB,
    RECOVERY_MOST_S,
    Row,
    failures,
    growth_row,
    latency_rows,
)
from lessons_loop.deploy.bench.load_stack import LoadStack
from lessons_loop.deploy.bench.load_users import Asked
from lessons_loop.deploy.bench.load_watch import MemoryWatch
from lessons_loop.filter.server import open_server, parse_server
from lessons_loop.filter.store import collection_names

SETTLE_SECONDS = 120.0
"""Longest time for what is under way at the end to arrive in staging."""
QUIET_SECONDS = 15.0
"""With nothing waiting and nothing new for so long (the timer's ten and more) nothing comes."""


class Stretch(NamedTuple):
    """A stretch of load and how busy the processors were."""

    began: float
    ended: float
    busy: float


class Measured(NamedTuple):
    """Everything that was seen."""

    asked: list[Asked]
    watch: MemoryWatch
    compared: Stretch
    alone: Stretch
    faults: list[Fault]
    think: float


def rows_of(found: Measured, stack: LoadStack) -> list[Row]:
    """Return the table."""
    compared = [a for a in found.asked if within(a, found.compared)]
    rate = len(compared) / (found.compared.ended - found.compared.began)
    busy = found.compared.busy
    return [
        Row("chats answered a second; think time", f"{rate:.1f}; {found.think:.1f} s"),
        Row("CPU of the machine", f"{busy:.0%}", f"< {CPU_MOST:.0%}", busy < CPU_MOST),
        *latency_rows(compared, busy),
        recall_row(compared),
        failed_row("failed chats, no fault", found.asked, found.compared),
        *fault_rows(found.asked, found.faults),
        *memory_rows(found),
        *staging_rows(found, stack),
    ]


def within(asked: Asked, stretch: Stretch) -> bool:
    """Say whether a question was asked and answered inside a stretch."""
    return stretch.began <= asked.began and asked.began + asked.lasted <= stretch.ended


def recall_row(asked: Sequence[Asked]) -> Row:
    """Return how many questions were given lessons; without the plugin there may be none."""
    told = {
        plugin: sum(bool(a.lessons) for a in asked if a.plugin is plugin)
        for plugin in (True, False)
    }
    number = sum(a.plugin for a in asked)
    reached = f"{told[True]} of {number} with, {told[False]} without"
    return Row("questions given lessons", reached, "> 0, 0", told[True] > 0 == told[False])


def failed_row(name: str, asked: Sequence[Asked], stretch: Stretch) -> Row:
    """Return the failed chats of a stretch in which nothing may fail."""
    count = failures(asked, stretch.began, stretch.ended)
    failed = count.cut[True] + count.other[True]
    return Row(name, str(count), "0 with", failed == 0)


def fault_rows(asked: Sequence[Asked], faults: Sequence[Fault]) -> list[Row]:
    """Return failed chats and the way back of each fault.

    A killed worker takes its connections along, whatever plugin its chats have: those are told
    by arm, and only what failed otherwise counts.
    """
    rows = []
    for fault in faults:
        count = failures(asked, fault.began, fault.ended)
        reached, bad = str(count), count.cut[True] + count.other[True]
        if fault.pid:
            cut = f"connections lost with it: {count.cut[True]} and {count.cut[False]}"
            reached, bad = f"{reached}; {cut}", count.other[True]
        wanted = "0 otherwise" if fault.pid else "0 with"
        rows.append(Row(f"failed chats, {fault.name}", reached, wanted, bad == 0))
        for name, seconds in (("recall", fault.recall), ("staging", fault.staging)):
            if name == "recall" or seconds:
                rows.append(back_row(f"  {name} is back", seconds))
    return rows


def back_row(name: str, seconds: float) -> Row:
    """Return how long a way back took."""
    holds = seconds <= RECOVERY_MOST_S
    return Row(name, f"{seconds:.1f} s", f"<= {RECOVERY_MOST_S:.0f} s", holds)


def memory_rows(found: Measured, arm: str = "with it") -> list[Row]:
    """Return how the workers grew: without the plugin, with it, while Chroma and nginx were away.

    Told apart, without a limit: another version of the plugin is compiled beside the old one, and
    the workers that are left take over a dead one's chats (see `--without` for what that costs).
    """
    alone, with_it = found.alone, found.compared
    replaced = next(fault for fault in found.faults if fault.name == REPLACED)
    killed = next(fault for fault in found.faults if fault.pid)
    spans = (
        ("a worker grew, without the plugin", alone.began, alone.ended, 0.0),
        (f"a worker grew, {arm}", with_it.began, with_it.ended, GROWTH_MOST_MB),
        (f"a worker grew, {arm}, first faults too", with_it.began, replaced.began, GROWTH_MOST_MB),
        ("a worker grew with a new plugin", replaced.began, killed.began, 0.0),
        ("a worker that is left grew", killed.began, found.watch.looks[-1].at, 0.0),
    )
    return [
        growth_row(name, found.watch.growth(began, ended), ended - began, most)
        for name, began, ended, most in spans
    ]


def staging_rows(found: Measured, stack: LoadStack) -> list[Row]:
    """Compare what should have reached staging with what is there.

    Of a killed worker what it was about to spool is lost: at most one event per connection.
    """
    used = sum(bool(a.lessons) and not a.failed for a in found.asked)
    kill = [f for f in found.faults if f.pid]
    spare = sum(failures(found.asked, f.began - 2, f.began + 2).asked[True] for f in kill)
    learned = requests.get(f"{stack.url('provider')}/counts", timeout=10).json().get("learned", 0)
    rows = []
    for name, wanted in (("events", used), ("candidates", int(learned))):
        there = settled(stack, collection_names(DOMAIN)[name], wanted)
        lost = max(0, wanted - there)
        rows.append(
            Row(f"{name} lost", f"{lost} of {wanted}", f"0, {spare} around the kill", lost <= spare)
        )
    return rows


def settled(stack: LoadStack, name: str, wanted: int) -> int:
    """Return how many rows a staging collection has once nothing more comes."""
    client: Any = open_server(parse_server(stack.url("chroma")), "staging")
    spool = stack.settings.data / "lessons" / "spool"
    began = moved = time.monotonic()
    known = 0
    with closing(client):
        while True:
            there = int(client.get_collection(name, embedding_function=None).count())
            now = time.monotonic()
            if there > known or any(spool.glob("*.json")):
                known, moved = there, now
            if there >= wanted or now > min(moved + QUIET_SECONDS, began + SETTLE_SECONDS):
                return there
            time.sleep(1.0)
