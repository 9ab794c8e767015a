"""What one chat costs a worker and a server: hooks, the spool's file, the row's way to staging."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lessons_loop.deploy.bench.figures import Figure, milliseconds, single, spread
from lessons_loop.deploy.bench.lessons import DOMAIN
from lessons_loop.deploy.bench.recall import loaded_vectors
from lessons_loop.deploy.bench.scale_parts import Place, placed, stock, words_of
from lessons_loop.deploy.bench.store import QUESTION, bench_filter, publish_made_up
from lessons_loop.filter.events import Usage
from lessons_loop.filter.server import parse_server
from lessons_loop.filter.server_staging import ServerStaging
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import StorePaths
from lessons_loop.filter.text import digest

LESSONS = 1_000
SHOWN = 5
WAITING = (0, 5_000)
"""Files in the spool: it counts them at each append."""
APPENDS = 50
ANSWER = "The machine ran 7,312 hours over the last month, counted by its telemetry. " * 6


def chat_figures(chats: int = 100, waiting: Sequence[int] = WAITING) -> list[Figure]:
    """Return what hooks, appends and draining cost."""
    with tempfile.TemporaryDirectory(prefix="lessons-bench-") as folder:
        scratch = Path(folder)
        hooks = asyncio.run(time_hooks(scratch / "folder", chats))
        appends = [figure for count in waiting for figure in append_figures(scratch, count)]
        with placed(scratch) as place:
            drained = drain_figures(place, scratch / "spool", 10 * chats)
    return [*hooks, *appends, *drained]


async def time_hooks(root: Path, chats: int) -> list[Figure]:
    """Time a chat's inlet and outlet with five lessons of 1,000; the embedding costs nothing."""
    publish_made_up(root, LESSONS)
    plugin, request = bench_filter(root, recall_timeout_ms=20_000)
    await loaded_vectors(plugin, request)
    used, seconds = [], []
    for number in range(chats):
        body: dict[str, Any] = {"messages": [{"role": "user", "content": QUESTION}]}
        metadata: dict[str, Any] = {"chat_id": f"c{number}"}
        began, cpu = time.perf_counter(), time.process_time()
        asked = await plugin.inlet(body=body, __metadata__=metadata, __request__=request)
        answer = {"role": "assistant", "content": ANSWER, "finish_reason": "stop"}
        ended = {
            "messages": [*body["messages"], answer],
            "chat_id": f"c{number}",
            "id": f"m{number}",
        }
        await plugin.outlet(body=ended, __metadata__=metadata, __request__=request)
        seconds.append(time.perf_counter() - began)
        await plugin.worker.settle(5)
        used.append(time.process_time() - cpu)
        assert asked is not body, "no lesson was recalled: nothing was measured"
    return [
        milliseconds("a chat's inlet and outlet", seconds),
        milliseconds("CPU of a chat, its event spooled", used),
    ]


def append_figures(scratch: Path, waiting: int) -> list[Figure]:
    """Time appends to a spool in which so many records wait."""
    paths = StorePaths(scratch / f"waiting-{waiting}")
    paths.spool.mkdir(parents=True)
    for number in range(waiting):
        (paths.spool / f"{number:020d}-waiting.json").touch()
    spool, seconds = Spool(paths), []
    for number in range(APPENDS):
        began = time.perf_counter()
        spool.append_usage(DOMAIN, made_up_use(number))
        seconds.append(time.perf_counter() - began)
    return [milliseconds(f"append to the spool, {waiting:,} waiting", seconds)]


def made_up_use(number: int) -> Usage:
    """Return a usage event as the filter writes it."""
    keys = tuple(digest("lesson", str((number + place) % LESSONS)) for place in range(SHOWN))
    refs = {"message_ref": digest("message", str(number)), "user_ref": digest("user", "1")}
    at = "2026-11-01T08:00:00Z"
    return Usage(keys=keys, at=at, model="m", outcome="stop", tools="ok", **refs)


def drain_figures(place: Place, folder: Path, count: int) -> list[Figure]:
    """Time the spool's way to a server: rows a second and CPU for each row."""
    stock(place, words_of(10))
    spool = Spool(StorePaths(folder), ServerStaging(parse_server(place.url)))
    for number in range(count):
        spool.append_usage(DOMAIN, made_up_use(number))
    rates = []
    began, cpu = time.perf_counter(), time.process_time()
    for _ in range(10):
        started = time.perf_counter()
        moved = spool.drain(most=max(1, count // 10))
        rates.append(moved / (time.perf_counter() - started))
    used, seconds = time.process_time() - cpu, time.perf_counter() - began
    spool.close()
    if list(os.scandir(spool.paths.spool)):
        raise AssertionError("the spool was not emptied: nothing was measured")
    return [
        spread("rows a worker moves to a server", rates, unit="rows/s"),
        single("CPU of a row moved", 1_000 * used / count, unit="ms", runs=count),
        single("rows moved in all", count / seconds, unit="rows/s"),
    ]
