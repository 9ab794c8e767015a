"""Scale measured: what more lessons, more chats and more staged rows cost, with slopes.

Real parts: a Chroma server, the filter's reader and spool, the gate, each in a process of
its own. `deploy/SCALE.md` is written from these figures (`deploy/bench/scale_page.py`), which it
finds by name: "<what>, <size> lessons". Not covered: Open WebUI itself, Chroma distributed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lessons_loop.deploy.bench.figures import Figure, milliseconds, single
from lessons_loop.deploy.bench.lessons import Words
from lessons_loop.deploy.bench.scale_chat import chat_figures
from lessons_loop.deploy.bench.scale_child import cpu_of, resident_of
from lessons_loop.deploy.bench.scale_fit import slope_figures
from lessons_loop.deploy.bench.scale_parts import (
    Place,
    asked_child,
    asked_worker,
    change_one,
    disk_of,
    megabytes,
    newest_snapshot,
    placed,
    publish_words,
    stage_candidates,
    stage_events,
    stock,
    words_of,
)

SIZES = (1_000, 10_000)
EVENTS = (10_000, 30_000)
CANDIDATES = 1_000
READINGS = 3
"""A worker's at its start and at the change, and the gate's that made the change."""
STOCKED = 200
"""Lessons the events are about: a fold's cost is the events'."""


def scale_figures(
    sizes: Sequence[int] = SIZES,
    events: Sequence[int] = EVENTS,
    candidates: int = CANDIDATES,
    chats: int = 100,
) -> list[Figure]:
    """Return the figures of each size, then what one more costs."""
    found = [figure for size in sizes for figure in lesson_figures(size, candidates)]
    for count in events:
        found += event_figures(count)
    found += chat_figures(chats)
    return [*found, *slope_figures(found)]


def lesson_figures(size: int, candidates: int) -> list[Figure]:
    """Measure folder, server, workers on both and the gate at so many lessons."""
    words = words_of(size)
    with tempfile.TemporaryDirectory(prefix="lessons-bench-") as folder:
        scratch = Path(folder)
        file = publish_words(scratch / "store", words)
        figures = [single(f"published file, {size:,} lessons", megabytes(file), unit="MB")]
        again = lambda: publish_words(scratch / "store", words, 2, hits=1)  # noqa: E731
        figures += worker_figures("folder", size, asked_worker(str(scratch / "store"), again))
        with placed(scratch) as place:
            figures += server_figures(place, size, words, candidates)
    return figures


def server_figures(
    place: Place, size: int, words: Sequence[Words], candidates: int
) -> list[Figure]:
    """Measure a server with so many lessons, a worker on it, and a gate."""
    stock(place, words)
    before = cpu_of(place.pid)
    worker = asked_worker(place.url, lambda: change_one(place))
    reading = (cpu_of(place.pid) - before) / READINGS
    figures = worker_figures("server", size, worker)
    figures += [
        single(f"Chroma's CPU while a worker reads, {size:,} lessons", reading, unit="s"),
        single(f"Chroma memory, {size:,} lessons", resident_of(place.pid), unit="MB"),
        single(f"Chroma disk, {size:,} lessons", disk_of(place)["data"], unit="MB"),
    ]
    stage_candidates(place, candidates, words)
    return figures + gate_figures(size, asked_child("gate", place.url, place.state), place)


def worker_figures(where: str, size: int, found: dict[str, Any]) -> list[Figure]:
    """Return what a worker measured."""
    of = f"{where}, {size:,} lessons"
    return [
        single(f"worker memory, {of}", found["memory"], unit="MB"),
        single(f"worker peak while a change is read, {of}", found["peak"], unit="MB"),
        single(f"load, {of}", found["load"], unit="s"),
        single(f"change read, {of}", found["changed"], unit="s"),
        milliseconds(f"look without a change, {of}", found["looks"]),
        milliseconds(f"recall, {of}", found["recall"]),
    ]


def gate_figures(size: int, found: dict[str, Any], place: Place) -> list[Figure]:
    """Return what a gate's run measured, judging scaled to 1,000 candidates."""
    of = f"{size:,} lessons"
    judging = found["judging"] * 1_000 / max(1, found["candidates"])
    return [
        single(f"gate opens and publishes, {of}", found["opening"], unit="s"),
        single(f"gate judges 1,000 candidates, {of}", judging, unit="s"),
        single(f"gate memory, {of}", found["peak"], unit="MB"),
        single(f"snapshot, {of}", found["snapshot"], unit="s"),
        single(f"snapshot file, {of}", megabytes(newest_snapshot(place)), unit="MB"),
    ]


def event_figures(count: int) -> list[Figure]:
    """Stage so many events on a server and fold them; what stays behind is measured too."""
    with (
        tempfile.TemporaryDirectory(prefix="lessons-bench-") as folder,
        placed(Path(folder)) as place,
    ):
        keys = stock(place, words_of(STOCKED))
        empty = disk_of(place)
        stage_events(place, keys, count)
        staged, memory = disk_of(place), resident_of(place.pid)
        found = asked_child("fold", place.url, place.state)
        after = asked_child("fold", place.url, place.state)
        of = f"{count:,} events"
        left = disk_of(place)["index"] - empty["index"]
        return [
            single(f"fold, {of}", found["folding"], unit="s"),
            single(f"fold memory, {of}", found["peak"], unit="MB"),
            single(f"snapshot before the fold, {of}", found["snapshot"], unit="s"),
            single(f"snapshot of the register, {of}", after["snapshot"], unit="s"),
            single(f"memory of that snapshot, {of}", after["peak"], unit="MB"),
            single(f"its file, {of}", megabytes(newest_snapshot(place)), unit="MB"),
            single(f"register, {of}", megabytes(place.state / "uses"), unit="MB"),
            single(f"staging disk, {of}", staged["data"] - empty["data"], unit="MB"),
            single(f"Chroma memory while staged, {of}", memory, unit="MB"),
            single(f"index left after the fold, {of}", left, unit="MB"),
        ]
