"""Recall beside its floor and beside Chroma: three ways to the same answer, taken in turns.

The bare matrix product is the floor: less cannot be done. A plain Chroma query (embedded
client, the same vectors, the nearest five, no `where`) is what a plugin would do without us.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lessons_loop.deploy.bench.figures import Figure, milliseconds, ratios
from lessons_loop.deploy.bench.store import (
    DIMENSION,
    QUESTION,
    bench_filter,
    made_up_vectors,
    publish_made_up,
)
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.lessons_filter import Filter
from lessons_loop.promote.store.chroma import load_chroma

NEAREST = 5
AT_ONCE = 5_000
"""Rows per `add`: Chroma takes 5,461 at most."""
LOAD_SECONDS = 60.0
LIMITS = {10_000: "p50 <= 3, p99 <= 15"}


class Timed(NamedTuple):
    """Seconds of each run, the same run at the same place."""

    inlet: list[float]
    numpy: list[float]
    chroma: list[float]


def recall_figures(sizes: Sequence[int], runs: int) -> list[Figure]:
    """Time `inlet` without embedding, the bare product and the Chroma query."""
    figures = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            publish_made_up(root, size)
            with plain_chroma(root / "chroma", size) as collection:
                timed = asyncio.run(time_recall(root, collection, runs))
        figures += figures_of(size, timed)
    return figures


def figures_of(size: int, timed: Timed) -> list[Figure]:
    """Return the three durations and our two ratios."""
    return [
        milliseconds(f"inlet, {size:,} lessons", timed.inlet, LIMITS.get(size, "")),
        milliseconds("  bare numpy product", timed.numpy),
        milliseconds("  plain Chroma query", timed.chroma),
        ratios("  inlet / numpy", timed.inlet, timed.numpy),
        ratios("  inlet / Chroma", timed.inlet, timed.chroma),
    ]


@contextmanager
def plain_chroma(folder: Path, size: int) -> Iterator[Any]:
    """Open a Chroma collection with the same vectors as the published lessons."""
    load_chroma()
    import chromadb
    from chromadb.config import Settings

    client: Any = chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))
    collection = client.create_collection(
        "plain", metadata={"hnsw:space": "cosine"}, embedding_function=None
    )
    rows = made_up_vectors(size)
    for start in range(0, size, AT_ONCE):
        part = rows[start : start + AT_ONCE]
        ids = [str(start + place) for place in range(len(part))]
        collection.add(ids=ids, embeddings=part, documents=ids)
    try:
        yield collection
    finally:
        client.close()


async def time_recall(root: Path, collection: Any, runs: int) -> Timed:
    """Return seconds per call: the hook, the product and the query, taken in turns."""
    plugin, request = bench_filter(root)
    vectors = await loaded_vectors(plugin, request)
    body = {"model": "m", "messages": [{"role": "user", "content": QUESTION}]}
    view = np.ones(DIMENSION, np.float32) / np.sqrt(np.float32(DIMENSION))
    timed = Timed([], [], [])
    for number in range(runs):
        metadata: dict[str, Any] = {"chat_id": f"c{number}"}
        started = time.perf_counter()
        await plugin.inlet(body=body, __metadata__=metadata, __request__=request)
        between = time.perf_counter()
        np.einsum("nd,d->n", vectors, view)
        then = time.perf_counter()
        collection.query(query_embeddings=[view], n_results=NEAREST)
        ended = time.perf_counter()
        timed.inlet.append(between - started)
        timed.numpy.append(then - between)
        timed.chroma.append(ended - then)
    return timed


async def loaded_vectors(plugin: Filter, request: Any) -> np.ndarray[Any, Any]:
    """Ask once so that everything is loaded and warm; return the lessons' vectors."""
    body = {"model": "m", "messages": [{"role": "user", "content": QUESTION}]}
    deadline = time.monotonic() + LOAD_SECONDS
    while time.monotonic() < deadline:  # the first load may take longer than one call's limit
        asked = await plugin.inlet(body=body, __metadata__={}, __request__=request)
        loaded = plugin.backend.reader.loaded if plugin.backend else None
        if loaded is not None and asked is not body:
            return loaded.recall.vectors
        await asyncio.sleep(0.1)
    raise LessonsError(f"the made-up lessons were not recalled within {LOAD_SECONDS:.0f} s")
