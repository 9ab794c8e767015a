"""Records on their way to staging: one fsynced file each, gone once staging has them.

A spool survives a locked store and a restart. Files are written under a
temporary name and renamed, so that a half-written one is never read.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.events import Usage
from lessons_loop.filter.models import Candidate, Record
from lessons_loop.filter.store import (
    APPEND_BATCH,
    StorePaths,
    append_records,
    collection_names,
    first_line,
    staging_session,
)

SPOOL_LIMIT = 10_000
"""Files kept at most; beyond it new records are refused, with a warning."""


class Spool:
    """The appenders of one store folder; satisfies CandidateAppender and EventAppender."""

    def __init__(self, paths: StorePaths) -> None:
        self.paths = paths

    def append_candidates(self, candidates: Sequence[Candidate]) -> None:
        """Spool candidates; raise StoreError when they cannot be kept."""
        for candidate in candidates:
            name = collection_names(candidate.lesson.domain)["candidates"]
            self._keep(name, candidate.to_record())

    def append_usage(self, domain: str, usage: Usage) -> None:
        """Spool one usage event; raise StoreError when it cannot be kept."""
        self._keep(collection_names(domain)["events"], usage.to_record())

    def waiting(self) -> int:
        """Return how many records wait for staging."""
        return sum(1 for _ in spooled(self.paths.spool))

    def drain(self, seconds: float = 5.0) -> int:
        """Move what waits into staging; return how many records.

        Raises StoreError (StoreLocked, StoreDamaged) and leaves the files in place.
        """
        moved = 0
        while batch := list(spooled(self.paths.spool))[:APPEND_BATCH]:
            moved += self._drain_batch(batch, seconds)
        return moved

    def _drain_batch(self, files: list[Path], seconds: float) -> int:
        rows: dict[str, dict[str, Record]] = {}
        for file in files:
            if entry := read_spooled(file):
                rows.setdefault(entry[0], {})[entry[1].id] = entry[1]
        if rows:
            with staging_session(self.paths, seconds) as client:
                for name, records in rows.items():
                    append_records(client, name, list(records.values()))
        for file in files:
            file.unlink(missing_ok=True)
        return len(files)

    def _keep(self, collection: str, record: Record) -> None:
        folder = self.paths.spool
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if self.waiting() >= SPOOL_LIMIT:
                raise StoreError(f"{folder} holds {SPOOL_LIMIT} records: run `lessons doctor`")
            write_spooled(folder, collection, record)
        except OSError as error:
            raise StoreError(f"{folder} cannot be written: {first_line(error)}") from None


def spooled(folder: Path) -> Iterator[Path]:
    """Yield the waiting files, oldest first."""
    if folder.is_dir():
        yield from sorted(folder.glob("*.json"))


def write_spooled(folder: Path, collection: str, record: Record) -> None:
    """Write one record under its final name only once it is on disk."""
    stem = f"{time.time_ns():020d}-{record.id[:40]}"
    draft = folder / f".{stem}.{os.getpid()}.tmp"
    content = {"collection": collection, "record": record._asdict()}
    with draft.open("w", encoding="utf-8") as file:
        json.dump(content, file, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(folder / f"{stem}.json")


def read_spooled(file: Path) -> tuple[str, Record] | None:
    """Return collection and record; a file that is none of ours is moved to `bad/`."""
    try:
        content = json.loads(file.read_text("utf-8"))
        return content["collection"], Record(**content["record"])
    except FileNotFoundError:  # another worker moved it on
        return None
    except (ValueError, KeyError, TypeError, UnicodeDecodeError):
        bad = file.parent / "bad"
        bad.mkdir(exist_ok=True)
        file.rename(bad / file.name)
        return None
