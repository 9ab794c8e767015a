"""Figures of `lessons status`: a child process, as a person starts it, on a large store.

The store is made without a gate: its published file, summary, a ledger of 20,000 lines, runs
and staged candidates are real files; the server's collections are real ones. Nothing that
status reads depends on how curated came about.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from lessons_loop.deploy.bench.figures import Figure, spread
from lessons_loop.deploy.bench.store import made_up_lessons, publish_made_up
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.models import Candidate, Evidence, EvidenceKind
from lessons_loop.filter.published import read_published
from lessons_loop.filter.schema import HEADER_FIELD, SCHEMA
from lessons_loop.filter.server import open_server, parse_server
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import StorePaths, collection_names, ensure_salt
from lessons_loop.promote.ledger.chain import FIRST_PREV, LedgerEntry
from lessons_loop.promote.records import Action, Actor
from lessons_loop.promote.runs.register import Outcomes, RunLine
from lessons_loop.promote.runs.summary import (
    LessonRecord,
    Summary,
    records_path,
    summary_path,
)
from lessons_loop.promote.state import locate
from lessons_loop.promote.store.places import FolderStore
from lessons_loop.promote.store.rows import create_cosine
from lessons_loop.promote.store.server_place import ServerStore

DOMAIN = "bench"
LIMIT = "at most 1 s"
WHEN = "2026-11-01T00:00:00Z"
START_SECONDS = 60.0


def status_figures(lessons: int = 10_000, lines: int = 20_000, runs: int = 10) -> list[Figure]:
    """Return how long `lessons status` takes on a folder and on a server."""
    with tempfile.TemporaryDirectory(prefix="lessons-bench-") as scratch:
        root = Path(scratch) / "store"
        publish_made_up(root, lessons)
        header = read_published(StorePaths(root).published(DOMAIN))
        assert header is not None
        write_state(root / "state", lessons, lines, header.header.rev)
        ensure_salt(StorePaths(root))
        stage_some(root, 200)
        what = f"lessons status, {lessons:,} lessons, {lines:,} ledger lines"
        folder = timed(["--store", str(root)], runs)
        figures = [spread(f"{what}, folder", folder, LIMIT, "s")]
        with served(Path(scratch) / "server") as url:
            fill_server(url, root / "state", lessons)
            options = ["--store", url, "--state-dir", str(root / "state")]
            figures.append(spread(f"{what}, server", timed(options, runs), LIMIT, "s"))
    return figures


def timed(options: Sequence[str], runs: int) -> list[float]:
    """Return the seconds of each run of the command; raise LessonsError when it fails."""
    command = [sys.executable, "-m", "lessons_loop.deploy.cli", "status", *options]
    seconds = []
    for _ in range(runs + 1):
        started = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds.append(time.perf_counter() - started)
        if done.returncode:
            raise LessonsError(f"lessons status failed: {(done.stderr or done.stdout).strip()}")
    return seconds[1:]  # the first one reads the program from disk


def write_state(state: Path, lessons: int, lines: int, rev: int) -> None:
    """Write what gates leave behind: ledger, runs, summary, records of half the lessons."""
    state.mkdir(parents=True)
    last = write_ledger(state / "ledger.jsonl", lines)
    with (state / "runs.jsonl").open("w") as file:
        for n in range(500):
            done = Outcomes(promoted=n % 7, held=n % 3, rejected=n % 2)
            line = RunLine(run=f"r{n}", domain=DOMAIN, started=WHEN, mode="auto", outcomes=done)
            file.write(line.model_dump_json() + "\n")
    path = summary_path(state, DOMAIN)
    path.parent.mkdir()
    used = made_up_lessons(lessons // 2)
    with records_path(state, DOMAIN).open("w") as file:
        for n, row in enumerate(used):
            one = LessonRecord(key=row.key, text=row.lesson.text, hits=n, failures=n % 5)
            file.write(one.model_dump_json() + "\n")
    head = {"head_n": last.n, "head_hash": last.hash, "rev": rev}
    summary = Summary.model_validate({"domain": DOMAIN, "at": WHEN, HEADER_FIELD: SCHEMA, **head})
    counts = {"curated": lessons, "used": len(used), "dimension": 384, "model": "random"}
    path.write_text(summary.model_copy(update=counts).model_dump_json())


def write_ledger(path: Path, lines: int) -> LedgerEntry:
    """Write a sound chain and return its last line."""
    prev, actor, entry = FIRST_PREV, Actor(kind="rule", name="evidence"), None
    with path.open("wb") as file:
        for n in range(1, lines + 1):
            entry = LedgerEntry(
                n=n,
                at=WHEN,
                run=f"run-{n // 50}",
                action=Action.PROMOTE,
                domain=DOMAIN,
                key=f"{n:064x}",
                actor=actor,
                reason="seen to work",
                payload="0" * 64,
                prev=prev,
            ).sealed()
            file.write(entry.line())
            prev = entry.hash
    assert entry is not None
    return entry


def candidates(count: int) -> list[Candidate]:
    """Return candidates as the plugin proposes them."""
    quote = "3 rows from machine_hours"
    proof = Evidence(kind=EvidenceKind.TOOL_SUCCESS, quote=quote, excerpt=f"[1] result: {quote}")
    return [
        Candidate(lesson=row.lesson, evidence=proof, message_ref=f"m{n}", at=WHEN)
        for n, row in enumerate(made_up_lessons(count))
    ]


def stage_some(root: Path, count: int) -> None:
    """Put candidates into a folder's staging the way the plugin does."""
    spool = Spool(StorePaths(root))
    spool.append_candidates(candidates(count))
    spool.drain()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Run a Chroma server for a block and yield the setting of a tenant on it."""
    with serving(folder) as (url, _):
        yield url


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, int]]:
    """Run a Chroma server for a block; yield the setting of a tenant on it and the process id."""
    folder.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    program = Path(sys.executable).with_name("chroma")
    command = [str(program), "run", "--path", str(folder), "--host", "127.0.0.1"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        [*command, "--port", str(port)], stdout=quiet, stderr=quiet, cwd=folder
    ) as server:
        try:
            yield awaited(f"http://127.0.0.1:{port}?tenant=bench-status", folder), server.pid
        finally:
            server.terminate()


def awaited(url: str, folder: Path) -> str:
    """Make the store's databases once the server answers; raise LessonsError."""
    store = locate(url, folder / "state")
    assert isinstance(store, ServerStore) and not isinstance(store, FolderStore)
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            store.make_layout()
            store.make_databases()
            return url
        except LessonsError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def fill_server(url: str, state: Path, lessons: int) -> None:
    """Put rows where status counts them; their content does not matter to it."""
    rev = json.loads(summary_path(state, DOMAIN).read_text())["rev"]
    header = {HEADER_FIELD: SCHEMA, "domain": DOMAIN, "rev": rev, "calibrated_rev": rev}
    names = collection_names(DOMAIN)
    put: Callable[..., None] = put_rows
    with closing(open_server(parse_server(url), "curated")) as client:  # type: ignore[type-var]
        put(create_cosine(client, names["curated"], header), lessons, 384)
    with closing(open_server(parse_server(url), "staging")) as client:  # type: ignore[type-var]
        put(create_cosine(client, names["candidates"]), 200, 1)
        create_cosine(client, names["events"])


def put_rows(collection: object, count: int, dimension: int) -> None:
    """Add rows that have an id, a moment and a vector."""
    vector = [1.0] + [0.0] * (dimension - 1)
    for start in range(0, count, 500):
        ids = [str(n) for n in range(start, min(count, start + 500))]
        rows = {"ids": ids, "documents": ids, "embeddings": [vector] * len(ids)}
        collection.add(**rows, metadatas=[{"at": WHEN}] * len(ids))  # type: ignore[attr-defined]


def main() -> None:
    """Print the figures alone."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for figure in status_figures():
        print(figure)


if __name__ == "__main__":
    main()
