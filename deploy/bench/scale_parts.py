"""What the scale figures work on: lessons on a server and in a folder, staged rows, children."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from lessons_loop.deploy.bench.fold import made_up_events
from lessons_loop.deploy.bench.gate import put_curated
from lessons_loop.deploy.bench.lessons import DOMAIN, Maker, WordEmbedder, Words
from lessons_loop.deploy.bench.status import serving
from lessons_loop.filter.embed import Purpose, fingerprint
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.models import Curated, Record
from lessons_loop.filter.server import parse_server
from lessons_loop.filter.server_staging import ServerStaging
from lessons_loop.filter.store import APPEND_BATCH, StorePaths, collection_names
from lessons_loop.promote.records import Action, Actor, Change
from lessons_loop.promote.session import GateSession, GateSettings, open_gate
from lessons_loop.promote.snapshot.files import list_snapshots
from lessons_loop.promote.store.publish import Edition, publish

CHILD = "lessons_loop.deploy.bench.scale_child"
SEED = 7
CALL_SECONDS = 30.0


class Place(NamedTuple):
    """A Chroma server of the bench's own, and the gate's state beside it."""

    url: str
    pid: int
    """The server's."""
    data: Path
    """The server's folder."""
    state: Path

    def settings(self) -> GateSettings:
        """Return where a gate works."""
        return GateSettings(self.url, DOMAIN, state=self.state, embedder=WordEmbedder())


@contextmanager
def placed(scratch: Path) -> Iterator[Place]:
    """Run a server for a block."""
    with serving(scratch / "chroma") as (url, pid):
        yield Place(url, pid, scratch / "chroma", scratch / "chroma" / "state")


def words_of(count: int) -> list[Words]:
    """Return what makes `count` lessons, always the same ones."""
    maker = Maker(SEED)
    return [maker.words() for _ in range(count)]


def publish_words(root: Path, words: Sequence[Words], rev: int = 1, hits: int = 0) -> Path:
    """Publish the lessons in a folder, the first with so many hits; return the file."""
    embedder, path = WordEmbedder(), StorePaths(root).published(DOMAIN)
    lessons = list({one.key: one for one in (each.lesson() for each in words)}.values())
    rows = [Curated(lesson=one, since="2026-11-01T00:00:00Z") for one in lessons]
    rows[0] = rows[0].model_copy(update={"hits": hits})
    vectors = embedder.embed([one.embedded_text for one in lessons], Purpose.DOCUMENT)
    publish(path, Edition(DOMAIN, rev, rows, vectors, fingerprint(embedder)), embedder)
    return path


def stock(place: Place, words: Sequence[Words]) -> list[str]:
    """Make the lessons curated on the server; return their keys."""
    with open_gate(place.settings()) as session:
        put_curated(session, words)
        return list(session.curated)


def change_one(place: Place) -> None:
    """Count an answer on one lesson, as a fold does."""
    with open_gate(place.settings()) as session:
        _count_one(session)


def _count_one(session: GateSession) -> None:
    row = next(iter(session.curated.values()))
    counted = row.model_copy(update={"hits": row.hits + 1})
    actor = Actor(kind="rule", name="bench")
    session.apply(Change(Action.FOLD, "", "counted", actor, {}, put=(counted,)))


def stage_candidates(place: Place, count: int, words: Sequence[Words]) -> None:
    """Add candidates to the server's staging, as the plugin does."""
    maker = Maker(SEED + 1)
    rows = [one.to_record() for one in maker.candidates(count, words)]
    stage(place, collection_names(DOMAIN)["candidates"], rows)


def stage_events(place: Place, keys: Sequence[str], count: int) -> None:
    """Add events to the server's staging: uses of five lessons, a thumb for each fifth."""
    rows = [one.to_record() for one in made_up_events(keys, count)]
    stage(place, collection_names(DOMAIN)["events"], rows)


def stage(place: Place, collection: str, rows: Sequence[Record]) -> None:
    """Add rows in the plugin's batches; raise LessonsError."""
    staging = ServerStaging(parse_server(place.url))
    try:
        for start in range(0, len(rows), APPEND_BATCH):
            batch = {collection: rows[start : start + APPEND_BATCH]}
            for error in staging.store(batch, CALL_SECONDS).values():
                raise error
    finally:
        staging.close()


def asked_child(what: str, store: str, state: Path) -> dict[str, Any]:
    """Run a child to its end and return what it measured; raise LessonsError."""
    command = [sys.executable, "-m", CHILD, what, store, str(state)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LessonsError(f"bench {what} ended with {done.returncode}: {done.stderr[-400:]}")
    return found_in(done.stdout)


def asked_worker(store: str, change: Callable[[], object]) -> dict[str, Any]:
    """Run a worker child, change a lesson once it is loaded, and return what it measured."""
    command = [sys.executable, "-m", CHILD, "worker", store, "."]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, text=True, **pipes) as child:
        assert child.stdout is not None
        ready = child.stdout.readline()
        if ready:
            change()
        told, failed = child.communicate("\n")
    if child.returncode:
        raise LessonsError(f"bench worker ended with {child.returncode}: {failed[-400:]}")
    return found_in(told)


def found_in(told: str) -> dict[str, Any]:
    """Return the last line's JSON."""
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    return found


def megabytes(*paths: Path) -> float:
    """Return what files and folders hold, in MB."""
    files = [file for path in paths for file in (path, *path.rglob("*")) if file.is_file()]
    return sum(file.stat().st_size for file in files) / 2**20


def disk_of(place: Place) -> Mapping[str, float]:
    """Return MB on the server's disk: all of its data, and what of it are index files."""
    indexes = [found for found in place.data.glob("*/data_level0.bin")]
    database = place.data / "chroma.sqlite3"
    index = sum(megabytes(found.parent) for found in indexes)
    return {"data": megabytes(database) + index, "index": index}


def newest_snapshot(place: Place) -> Path:
    """Return the last snapshot the gate took."""
    return list_snapshots(place.state, DOMAIN)[-1]
