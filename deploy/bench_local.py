"""In-process figures: the hooks, the published file, the event loop's stalls."""

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
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from lessons_loop.filter.embed import FINGERPRINT_SENTENCES, Fingerprint, Purpose, Vectors
from lessons_loop.filter.embed import fingerprint as fingerprint_by
from lessons_loop.filter.lessons_filter import Filter
from lessons_loop.filter.models import Candidate, Curated, Evidence, EvidenceKind, Kind, Lesson
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.publish import Edition, publish

DIMENSION = 384
_WORDS = (
    "machine serial telemetry hours orders customer region month invoice index partition limit"
    " join cache token retry certificate pod volume replica schema column unit window backup"
)
WORDS = _WORDS.split()
QUESTION = "operating hours of the machine with serial 4711 over the last month?"


class Figure(NamedTuple):
    """One measured row: milliseconds unless the name says otherwise."""

    name: str
    low: float
    median: float
    p99: float
    runs: int
    limit: str = ""


def spread(name: str, seconds: list[float], limit: str = "") -> Figure:
    """Return minimum, median and 99th percentile in milliseconds."""
    ms = 1000 * np.array(seconds)
    low, median, p99 = np.percentile(ms, [0, 50, 99])
    return Figure(name, float(low), float(median), float(p99), len(ms), limit)


class RandomEmbedder:
    """Random unit vectors, the same for the same text: no model, so that only our cost shows."""

    name = "random"
    prefixes = ("", "")

    def embed(self, texts: Any, purpose: Purpose) -> Vectors:
        """Return unit rows, shape (len(texts), DIMENSION)."""
        rows = [np.random.default_rng(abs(hash(t)) % 2**32).normal(size=DIMENSION) for t in texts]
        matrix = np.array(rows, np.float32)
        unit: Vectors = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
        return unit


def made_up_lessons(count: int) -> list[Curated]:
    """Return lessons of about 200 characters, all different, made from a seed."""
    random = np.random.default_rng(7)
    kinds = list(Kind)
    lessons = []
    for number in range(count):
        words = " ".join(random.choice(WORDS, 24))
        lesson = Lesson(
            domain="bench",
            text=f"Use rule {number}: {words}.",
            kind=kinds[number % len(kinds)],
            trigger=f"case {number} of {' '.join(random.choice(WORDS, 4))}",
            tags=(str(random.choice(WORDS)),),
        )
        lessons.append(Curated(lesson=lesson, since="2026-11-01T00:00:00Z"))
    return lessons


def publish_made_up(root: Path, count: int) -> Path:
    """Publish `count` lessons with random vectors; return the file."""
    vectors = np.random.default_rng(7).normal(size=(count, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    embedder = RandomEmbedder()
    mark: Fingerprint = fingerprint_by(embedder)
    path = StorePaths(root).published("bench")
    publish(path, Edition("bench", 1, made_up_lessons(count), vectors, mark), embedder)
    return path


def bench_filter(root: Path, **valves: object) -> tuple[Filter, Any]:
    """Return a filter on the store and the request its hooks get; embedding costs nothing."""
    embedder = RandomEmbedder()
    ready = {text: embedder.embed([text], Purpose.QUERY)[0] for text in FINGERPRINT_SENTENCES}

    async def embedding_function(query: list[str], prefix: object = None) -> Vectors:
        known = [ready.get(text) for text in query]
        for place, text in enumerate(query):
            if known[place] is None:
                known[place] = ready[text] = embedder.embed([text], Purpose.QUERY)[0]
        return np.array(known)

    state = SimpleNamespace(EMBEDDING_FUNCTION=embedding_function, MODELS={})
    plugin = Filter()
    settings: dict[str, Any] = {"store": str(root), "domains": "bench", "min_similarity": "0.05"}
    plugin.valves = Filter.Valves(**(settings | valves))
    return plugin, SimpleNamespace(app=SimpleNamespace(state=state))


def inlet_figures(sizes: tuple[int, ...], runs: int = 400) -> list[Figure]:
    """Time `inlet` without embedding, beside a bare matrix product in the same run."""
    figures = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            publish_made_up(Path(folder), size)
            limit = "p50 <= 3, p99 <= 15" if size == 10_000 else ""
            inlet, bare = asyncio.run(time_inlet(Path(folder), runs))
        figures.append(spread(f"inlet, {size:,} lessons", inlet, limit))
        figures.append(spread(f"  bare numpy product, {size:,}", bare))
    return figures


async def time_inlet(root: Path, runs: int) -> tuple[list[float], list[float]]:
    """Return seconds per call: the hook, and the product alone, taken in turns."""
    plugin, request = bench_filter(root)
    body = {"model": "m", "messages": [{"role": "user", "content": QUESTION}]}

    async def call() -> None:
        metadata: dict[str, Any] = {"chat_id": "c"}
        await plugin.inlet(body=body, __metadata__=metadata, __request__=request)

    await call()
    await asyncio.sleep(0)
    assert plugin.backend is not None
    for _ in range(600):  # the first load may take longer than one call's limit
        if plugin.backend.reader.loaded:
            break
        await asyncio.sleep(0.1)
    await call()
    loaded = plugin.backend.reader.loaded
    assert loaded is not None
    view = np.ones(DIMENSION, np.float32)
    inlet: list[float] = []
    bare: list[float] = []
    for _ in range(runs):
        started = time.perf_counter()
        await call()
        inlet.append(time.perf_counter() - started)
        started = time.perf_counter()
        np.einsum("nd,d->n", loaded.recall.vectors, view)
        bare.append(time.perf_counter() - started)
    return inlet, bare


def outlet_figures(runs: int = 200) -> list[Figure]:
    """Time `outlet` for a long chat: 60 messages, the last with 200,000 characters."""
    with tempfile.TemporaryDirectory() as folder:
        spent = asyncio.run(time_outlet(Path(folder), runs))
    return [spread("outlet, 60 messages, 200,000 characters", spent, "<= 5")]


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
        spread(f"published file read and ready, {size:,} lessons", list(seconds), "<= 2000"),
        Figure("  memory gained, MB", float(low), float(mid), float(high), runs, "<= 60"),
        Figure("  file on disk, MB", megabytes, megabytes, megabytes, 1),
    ]


def stall_figures() -> list[Figure]:
    """Measure the longest pause of the event loop during reading and during an append."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        publish_made_up(root, 10_000)
        reading = asyncio.run(stalls(lambda: read_again(root), 5))
        spool = Spool(StorePaths(root))
        append_some(spool, 0)
        spool.drain()  # chromadb is imported and the collection made
        appending = asyncio.run(stalls(lambda: append_and_drain(spool), 20))
    return [
        spread("longest stall while 10,000 lessons are read", reading, "<= 50"),
        spread("longest stall during an embedded append", appending, "<= 120"),
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
