"""In-process figures: the outlet, the published file, the event loop's stalls."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from lessons_loop.deploy.bench.figures import Figure, milliseconds, single
from lessons_loop.deploy.bench.store import bench_filter, made_up_lessons, publish_made_up
from lessons_loop.filter.models import Candidate, Evidence, EvidenceKind
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import StorePaths


def outlet_figures(runs: int = 200) -> list[Figure]:
    """Time `outlet` for a long chat: 60 messages, the last with 200,000 characters."""
    with tempfile.TemporaryDirectory() as folder:
        spent = asyncio.run(time_outlet(Path(folder), runs))
    return [milliseconds("outlet, 60 messages, 200,000 characters", spent, "<= 5")]


async def time_outlet(root: Path, runs: int) -> list[float]:
    """Return seconds per call; learning is on and its endpoint refuses connections."""
    plugin, request = bench_filter(root, distill_enabled=True, distill_url="http://127.0.0.1:9/v1")
    turn = [{"role": "user", "content": "q " * 100}, {"role": "assistant", "content": "a " * 400}]
    last = {"role": "assistant", "content": "x" * 200_000, "finish_reason": "stop"}
    spent = []
    for number in range(runs):
        body = {"messages": [*turn * 30, last], "chat_id": "c", "id": f"m{number}"}
        started = time.perf_counter()
        await plugin.outlet(body=body, __metadata__={}, __request__=request)
        spent.append(time.perf_counter() - started)
        await plugin.worker.settle(5)
    return spent


LOAD_ONCE = """
import json, resource, sys, time
from pathlib import Path
from lessons_loop.filter.alerts import Alerts
from lessons_loop.filter.reader import CuratedReader
from lessons_loop.filter.shelves import PublishedFolder
from lessons_loop.filter.store import StorePaths
def now_mb():
    status = open("/proc/self/status").read()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024
before = now_mb()
started = time.perf_counter()
reader = CuratedReader(PublishedFolder(StorePaths(Path(sys.argv[1]))), ("bench",), Alerts())
reader.refresh()
print(json.dumps([time.perf_counter() - started, now_mb() - before]))
"""


def load_figures(size: int = 10_000, runs: int = 5) -> list[Figure]:
    """Read the published file in fresh processes: seconds to ready, memory gained."""
    with tempfile.TemporaryDirectory() as folder:
        path = publish_made_up(Path(folder), size)
        megabytes = path.stat().st_size / 2**20
        command = [sys.executable, "-c", LOAD_ONCE, folder]
        rows = [json.loads(subprocess.check_output(command)) for _ in range(runs)]
    seconds, memory = zip(*rows, strict=True)
    low, mid, high = np.percentile(memory, [0, 50, 100])
    return [
        milliseconds(f"published file read and ready, {size:,} lessons", list(seconds), "<= 2000"),
        Figure("  memory gained", float(low), float(mid), float(high), runs, "<= 60", "MB"),
        single("  file on disk", megabytes, unit="MB"),
    ]


def stall_figures(size: int = 10_000, runs: int = 20) -> list[Figure]:
    """Measure the longest pause of the event loop during reading and during an append."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        publish_made_up(root, size)
        reading = asyncio.run(stalls(lambda: read_again(root), min(runs, 5)))
        spool = Spool(StorePaths(root))
        append_some(spool, 0)
        spool.drain()  # chromadb is imported and the collection made
        appending = asyncio.run(stalls(lambda: append_and_drain(spool), runs))
    return [
        milliseconds(f"longest stall while {size:,} lessons are read", reading, "<= 50"),
        milliseconds("longest stall during an embedded append", appending, "<= 120"),
    ]


async def read_again(root: Path) -> None:
    """Load the lessons anew, in a thread, as the timer does."""
    plugin, _ = bench_filter(root)
    backend = plugin._ready(plugin.valves)
    await asyncio.to_thread(backend.reader.refresh)


async def append_and_drain(spool: Spool) -> None:
    """Spool three candidates and move them into staging, in a thread, as the filter does."""
    await asyncio.to_thread(append_some, spool, time.monotonic_ns())
    await asyncio.to_thread(spool.drain)


def append_some(spool: Spool, number: int) -> None:
    """Spool three candidates of one message."""
    proof = Evidence(kind=EvidenceKind.TOOL_SUCCESS, quote="12 rows in 3 ms", excerpt="12 rows")
    for curated in made_up_lessons(3):
        spool.append_candidates(
            [Candidate(lesson=curated.lesson, evidence=proof, message_ref=f"m{number}", at="2026")]
        )


async def stalls(work: Callable[[], Awaitable[None]], runs: int) -> list[float]:
    """Return, per run, the longest pause of a 1 ms ticker beyond its interval, in seconds."""
    longest = []
    for _ in range(runs):
        with ticking() as gaps:
            await work()
            await asyncio.sleep(0.01)
        longest.append(max(gaps, default=0.0))
    return longest


@contextmanager
def ticking() -> Iterator[list[float]]:
    """Collect the ticker's excess pauses for the block."""
    gaps: list[float] = []

    async def tick() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            gaps.append(now - last - 0.001)
            last = now

    task = asyncio.get_running_loop().create_task(tick())
    try:
        yield gaps
    finally:
        task.cancel()
