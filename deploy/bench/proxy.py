"""What the policy proxy costs: the same call on the store directly and through nginx, in turns.

    python -m lessons_loop.deploy.bench --only proxy

Covered: a look, a count, a page of 100 rows, 50 rows added; each pair in one run, the
order changing, so that a busy machine hits both, and slowly enough for the proxy not to pace
them. Not covered: a network between the parts.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lessons_loop.deploy.bench.figures import Figure, milliseconds
from lessons_loop.deploy.bench.status import serving
from lessons_loop.deploy.policy import adapted_policy, nginx_command
from lessons_loop.deploy.processes import LOOPBACK, free_port, start, stopping, wait_for_url
from lessons_loop.filter.server import ServerAddress, open_server, parse_server
from lessons_loop.filter.store import STAGING_VECTOR

MORE_WANTED = "<= 2 at the median"
DIMENSION = 384
LESSONS = 300
PAGE = 100
BATCH = 50
SHARED = Path("/dev/shm")
"""In main memory: a disk's spread (20 to 270 ms for an add on a busy one) hides what is sought."""
APART = 0.01
"""Seconds between pairs: above 200 calls a second the proxy paces its client, 5 ms a call."""
Call = Callable[[], Any]


def proxy_figures(runs: int = 300) -> list[Figure]:
    """Time each kind of call the filter makes, directly and through the proxy."""
    place = SHARED if os.access(SHARED, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as folder, ExitStack() as stack:
        url, _ = stack.enter_context(serving(Path(folder) / "chroma"))
        direct = parse_server(url)
        through = stack.enter_context(proxied(Path(folder) / "nginx", direct))
        fill(direct)
        ours = [stack.enter_context(calls(address)) for address in (through, direct)]
        found = []
        for name in ours[0]:
            spent = in_turns(ours[0][name], ours[1][name], runs)
            found += figures_of(name, *spent)
    return found


def figures_of(name: str, through: list[float], direct: list[float]) -> list[Figure]:
    """Return both spreads, and the spread of the difference, pair by pair."""
    more = [one - other for one, other in zip(through, direct, strict=True)]
    return [
        milliseconds(f"{name}, direct", direct),
        milliseconds(f"{name}, proxy", through),
        milliseconds(f"{name}, proxy adds", more, MORE_WANTED),
    ]


def in_turns(one: Call, other: Call, runs: int) -> tuple[list[float], list[float]]:
    """Return seconds per call of both, measured side by side; the order changes each time."""
    spent: tuple[list[float], list[float]] = ([], [])
    for _ in range(5):
        one(), other()  # connections, and the proxy's first look-up of the id
    for turn in range(runs):
        time.sleep(APART)
        for which in (0, 1) if turn % 2 else (1, 0):
            started = time.perf_counter()
            (one, other)[which]()
            spent[which].append(time.perf_counter() - started)
    return spent


@contextmanager
def calls(address: ServerAddress) -> Iterator[dict[str, Call]]:
    """Yield the filter's kinds of calls on one address, on connections kept open."""
    with (
        closing(open_server(address, "curated")) as curated,  # type: ignore[type-var]
        closing(open_server(address, "staging")) as staging,  # type: ignore[type-var]
    ):
        lessons: Any = curated.get_collection("bench-lessons", embedding_function=None)
        staged: Any = staging.get_collection("bench-lessons-candidates", embedding_function=None)
        wanted = ["documents", "metadatas", "embeddings"]
        number = iter(range(10**9))
        side = address.port
        yield {
            "look-up": lambda: curated.get_collection("bench-lessons", embedding_function=None),
            "count": lessons.count,
            f"{PAGE} lessons": lambda: lessons.get(limit=PAGE, offset=0, include=wanted),
            f"{BATCH} rows added": lambda: add_batch(staged, f"{side}-{next(number)}"),
        }


def add_batch(collection: Any, name: str) -> None:
    """Add one batch of new rows, as the filter does."""
    collection.add(
        ids=[f"{name}-{row}" for row in range(BATCH)],
        documents=["x" * 400] * BATCH,
        metadatas=[{"at": "2026-01-01T00:00:00Z", "excerpt": "y" * 1_000}] * BATCH,
        embeddings=[STAGING_VECTOR] * BATCH,
    )


def fill(address: ServerAddress) -> None:
    """Make the collections, curated with lessons."""
    shape = {"hnsw": {"space": "cosine"}}
    with closing(open_server(address, "staging")) as client:  # type: ignore[type-var]
        make: Any = client.create_collection
        make("bench-lessons-candidates", configuration=shape, embedding_function=None)
    with closing(open_server(address, "curated")) as client:  # type: ignore[type-var]
        make = client.create_collection
        made = make("bench-lessons", configuration=shape, embedding_function=None)
        made.add(
            ids=[f"lesson-{row}" for row in range(LESSONS)],
            documents=["x" * 300] * LESSONS,
            metadatas=[{"domain": "bench", "row": row} for row in range(LESSONS)],
            embeddings=[[1.0, *([row / LESSONS] * (DIMENSION - 1))] for row in range(LESSONS)],
        )


@contextmanager
def proxied(folder: Path, behind: ServerAddress) -> Iterator[ServerAddress]:
    """Run nginx with the committed rules for a block; yield the store's address through it."""
    folder.mkdir()
    port, config = free_port(), folder / "nginx.conf"
    config.write_text(adapted_policy(port, behind.port, folder, behind.tenant), "utf-8")
    nginx = start("nginx", nginx_command(config), folder / "nginx.log", os.environ, folder)
    with stopping([nginx]):
        wait_for_url(nginx, f"http://{LOOPBACK}:{port}/healthz", 20)
        yield parse_server(behind.url.replace(urlsplit(behind.base).netloc, f"{LOOPBACK}:{port}"))
