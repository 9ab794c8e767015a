"""How long `promote --auto` takes over many candidates, and how much memory.

    python -m lessons_loop.deploy.bench.gate STORE     one run on a store made before

The run is a process of its own, so that its peak memory is its own; embedding is timed
apart and taken off. Covered: an embedded store with 10,000 curated lessons.
Not covered: a real embedding model, a server.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lessons_loop.deploy.bench.figures import Figure, single
from lessons_loop.deploy.bench.lessons import DOMAIN, Maker, WordEmbedder, Words
from lessons_loop.filter.embed import Purpose, Vectors
from lessons_loop.filter.models import Candidate, Curated, Status
from lessons_loop.filter.store import StorePaths, append_records, collection_names, staging_session
from lessons_loop.promote.gate import Mode
from lessons_loop.promote.records import Action, Actor, Change
from lessons_loop.promote.runs.drive import RunOptions, run_gate
from lessons_loop.promote.session import GateSession, GateSettings, open_gate
from lessons_loop.promote.store.candidates import ensure_staging

CURATED = 10_000
RUNS = ((1_000, "20 s at most"), (10_000, "120 s at most"))
MOST_MEGABYTES = "500 MB at most"
STEP = 500
SEEDER = Actor(kind="seed", name="bench")


class TimedEmbedder(WordEmbedder):
    """Says how long it took, so that it can be taken off."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        """Return unit rows."""
        began = time.perf_counter()
        rows = super().embed(texts, purpose)
        self.seconds += time.perf_counter() - began
        return rows


def gate_figures(part: int = 1) -> list[Figure]:
    """Measure, with the `part`-th part of the lessons and candidates."""
    figures = []
    for count, limit in RUNS:
        with tempfile.TemporaryDirectory(prefix="lessons-bench-") as folder:
            root = Path(folder) / "store"
            fill(root, CURATED // part, count // part)
            found = measured(root)
        figures += _figures(found, count // part, CURATED // part, limit)
    return figures


def _figures(found: dict[str, Any], count: int, curated: int, limit: str) -> list[Figure]:
    name = f"--auto, {count:,} candidates, {curated:,} curated"
    rows = [
        (name, found["seconds"] - found["embedding"], limit, "s"),
        (f"{name}: of a core", found["cpu"] - found["embedding"], "", "s"),
        (f"{name}: embedding", found["embedding"], "not counted above", "s"),
        (f"{name}: peak memory", found["megabytes"], MOST_MEGABYTES, "MB"),
    ]
    return [single(title, one, wanted, unit) for title, one, wanted, unit in rows]


def fill(root: Path, curated: int, candidates: int) -> None:
    """Make a store with so many curated lessons and candidates."""
    maker = Maker(7)
    words = [maker.words() for _ in range(curated)]
    with open_gate(GateSettings(str(root), DOMAIN, embedder=WordEmbedder())) as session:
        put_curated(session, words)
        ensure_staging(session.store, DOMAIN)
    stage_all(root, list(maker.candidates(candidates, words)))


def put_curated(session: GateSession, words: Sequence[Words]) -> None:
    """Make the lessons curated, through the one write path."""
    lessons = {lesson.key: lesson for lesson in (one.lesson() for one in words)}
    rows = [
        Curated(
            lesson=lesson.model_copy(update={"status": Status.CURATED}),
            since="2026-11-01T08:00:00Z",
        )
        for lesson in lessons.values()
    ]
    for start in range(0, len(rows), STEP):
        put = tuple(rows[start : start + STEP])
        vectors = session.embed([row.lesson.embedded_text for row in put])
        about: dict[str, object] = {"lessons": [row.key for row in put]}
        session.apply(Change(Action.SEED, "", "made up", SEEDER, about, put=put, vectors=vectors))


def stage_all(root: Path, candidates: Sequence[Candidate]) -> None:
    """Put candidates into staging, oldest first."""
    name = collection_names(DOMAIN)["candidates"]
    with staging_session(StorePaths(root)) as client:
        for start in range(0, len(candidates), STEP):
            batch = candidates[start : start + STEP]
            append_records(client, name, [one.to_record() for one in batch])


def measured(root: Path) -> dict[str, Any]:
    """Run the gate in a process of its own and return what it measured."""
    command = [sys.executable, "-m", "lessons_loop.deploy.bench.gate", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the run ended with {done.returncode}: {done.stderr[-600:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run_here(root: Path) -> dict[str, Any]:
    """Open the gate, run `--auto`, close it; return seconds, megabytes and counts."""
    embedder = TimedEmbedder()
    began, cpu = time.perf_counter(), time.process_time()
    with open_gate(GateSettings(str(root), DOMAIN, embedder=embedder)) as session:
        report = run_gate(session, RunOptions(Mode.AUTO))
    return {
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - cpu,
        "embedding": embedder.seconds,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "counts": report.counts(),
    }


def main() -> None:
    """Measure one store and print it as JSON."""
    print(json.dumps(run_here(Path(sys.argv[1]))))


if __name__ == "__main__":
    main()
