"""Records on their way to staging: one fsynced file each, gone once staging has them.

A spool survives a locked store, a server that is down, and a restart. Files are written
under a temporary name and renamed, so that a half-written one is never read.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from lessons_loop.filter.errors import StoreError, StoreLocked
from lessons_loop.filter.events import USAGE_SHARE, Rating, Tally, Usage, is_counted
from lessons_loop.filter.models import Candidate, Record
from lessons_loop.filter.store import (
    APPEND_BATCH,
    PRIVATE,
    StorePaths,
    append_records,
    collection_names,
    file_lock,
    first_line,
    staging_session,
)

_STAGING_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}-lessons-(?:candidates|events)")
BREATH_SECONDS = 0.02
"""Between batches: an embedded one holds the interpreter (50 rows: 0.1 s), chats go on here."""
SPOOL_LIMIT = 10_000
"""Files kept at most; beyond it new records are refused, with a warning."""
STUCK_SECONDS = 600.0
"""A record that waits longer, while another worker holds the lock and moves nothing: it hangs."""


class StagingSink(Protocol):
    """What a spool empties into."""

    def store(
        self, rows: Mapping[str, Sequence[Record]], seconds: float
    ) -> Mapping[str, StoreError]:
        """Keep rows by collection durably; return why a collection could not take its own.

        Raises StoreError where the whole of staging is out of reach.
        """

    def close(self) -> None:
        """Let go of connections."""


class FolderStaging:
    """Staging in a store folder, opened for one small batch at a time."""

    def __init__(self, paths: StorePaths) -> None:
        self.paths = paths

    def store(
        self, rows: Mapping[str, Sequence[Record]], seconds: float
    ) -> Mapping[str, StoreError]:
        """Add all rows in one session; raise StoreLocked, StoreDamaged, StoreError."""
        with staging_session(self.paths, seconds) as client:
            for name, records in rows.items():
                append_records(client, name, records)
        return {}

    def close(self) -> None:
        """Nothing is kept open."""


class Spool:
    """The appenders of one store; satisfies CandidateAppender and EventAppender."""

    def __init__(self, paths: StorePaths, staging: StagingSink | None = None) -> None:
        self.paths = paths
        self.staging: StagingSink = staging or FolderStaging(paths)
        self.closed = False

    def close(self) -> None:
        """End a running drain after its batch; what waits is the next spool's. Blocking."""
        self.closed = True
        self.staging.close()

    def append_candidates(self, candidates: Sequence[Candidate]) -> None:
        """Spool candidates; raise StoreError when they cannot be kept."""
        for candidate in candidates:
            name = collection_names(candidate.lesson.domain)["candidates"]
            self._keep(name, candidate.to_record())

    def append_usage(self, domain: str, usage: Usage) -> None:
        """Spool one usage event; raise StoreError when it cannot be kept."""
        if is_counted(usage.message_ref, os.environ.get(USAGE_SHARE, "")):
            self._keep(collection_names(domain)["events"], usage.to_record())

    def append_rating(self, domain: str, rating: Rating) -> None:
        """Spool one change of a rating; raise StoreError when it cannot be kept."""
        if is_counted(rating.message_ref, os.environ.get(USAGE_SHARE, "")):
            self._keep(collection_names(domain)["events"], rating.to_record())

    def append_tally(self, domain: str, tally: Tally) -> None:
        """Spool what was counted; raise StoreError when it cannot be kept."""
        self._keep(collection_names(domain)["events"], tally.to_record())

    def waiting(self) -> int:
        """Return how many records wait for staging."""
        try:
            return len(spooled_names(self.paths.spool))
        except FileNotFoundError:
            return 0

    def drain(self, seconds: float = 5.0, most: int | None = None) -> int:
        """Move what waits, the oldest `most` of it, into staging; return how many records.

        0 where another worker is still at it after `seconds`. Raises StoreError (StoreLocked,
        also where that one seems to hang, StoreDamaged, StoreUnreachable, StoreMissing) and
        leaves in place what was not stored.
        """
        lock, oldest = spool_lock(self.paths), oldest_spooled(self.paths.spool)
        with drained_alone(lock, seconds) as alone:
            if alone:
                return self._drain(seconds, most)
        if oldest is not None and oldest == oldest_spooled(self.paths.spool):
            refuse_stuck(lock, oldest)
        return 0

    def drained(self, most: int) -> bool:
        """Drain; say whether that is known to work: not where another worker is still at it."""
        return self.drain(most=most) > 0 or not self.waiting()

    def _drain(self, seconds: float, most: int | None) -> int:
        moved, refused = 0, dict[str, StoreError]()
        try:
            files = list(spooled(self.paths.spool))[:most]
            for start in range(0, len(files), APPEND_BATCH):
                time.sleep(BREATH_SECONDS if start else 0)
                if self.closed:  # the store was changed: the rest belongs to the new one
                    break
                moved += self._drain_batch(files[start : start + APPEND_BATCH], seconds, refused)
        except OSError as error:
            raise StoreError(f"{self.paths.spool} cannot be emptied: {error}") from None
        if refused:
            raise next(iter(refused.values()))
        return moved

    def _drain_batch(
        self, files: list[Path], seconds: float, refused: dict[str, StoreError]
    ) -> int:
        rows: dict[str, dict[str, Record]] = {}
        names: dict[Path, str] = {}
        for file in files:
            if entry := read_spooled(file):
                names[file] = entry[0]
                rows.setdefault(entry[0], {})[entry[1].id] = entry[1]
        open_to = {n: list(found.values()) for n, found in rows.items() if n not in refused}
        if open_to:
            refused.update(self.staging.store(open_to, seconds))
        done = [file for file in files if names.get(file) not in refused]
        for file in done:
            file.unlink(missing_ok=True)
        return len(done)

    def _keep(self, collection: str, record: Record) -> None:
        folder = self.paths.spool
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
            if self.waiting() >= SPOOL_LIMIT:
                raise StoreError(f"{folder} holds {SPOOL_LIMIT} records: see `lessons doctor`")
            write_spooled(folder, collection, record)
        except OSError as error:
            raise StoreError(f"{folder} cannot be written: {first_line(error)}") from None


@contextmanager
def drained_alone(lock: Path, seconds: float) -> Iterator[bool]:
    """Yield whether nobody else empties the spool: three workers would send each record thrice.

    Also where the lock cannot be made: on a full disk emptying is what makes room.
    """
    with ExitStack() as held:
        try:
            held.enter_context(file_lock(lock, seconds))
        except StoreLocked:
            yield False
            return
        except StoreError:
            pass
        yield True


def spool_lock(paths: StorePaths) -> Path:
    """Return the lock of whoever empties the spool; the kernel's, so it ends with its holder."""
    return paths.root / "spool.lock"


def oldest_spooled(folder: Path) -> Path | None:
    """Return the file that waits longest, None without one."""
    try:
        names = spooled_names(folder)
    except OSError:
        return None
    return folder / min(names) if names else None


def refuse_stuck(lock: Path, oldest: Path) -> None:
    """Raise StoreLocked where a record waits too long for whoever holds the lock."""
    with suppress(OSError):  # it was moved on just now
        minutes = (time.time() - oldest.stat().st_mtime) / 60
        if minutes * 60 > STUCK_SECONDS:
            raise StoreLocked(
                f"{lock} is held by another worker and a record waits for {minutes:.0f} minutes: "
                "where that lasts, end the worker that hangs"
            )


def spooled_names(folder: Path) -> list[str]:
    """Return the names of the waiting files in no order; raise OSError."""
    with os.scandir(folder) as found:  # at each append: 5,000 in 2 ms
        return [entry.name for entry in found if entry.name.endswith(".json")]


def spooled(folder: Path) -> Iterator[Path]:
    """Yield the waiting files, oldest first."""
    if folder.is_dir():
        yield from sorted(folder.glob("*.json"))


def write_spooled(folder: Path, collection: str, record: Record) -> None:
    """Write one record under its final name only once it is on disk."""
    stem = f"{time.time_ns():020d}-{record.id[:40]}"
    draft = folder / f".{stem}.{os.getpid()}.tmp"
    content = {"collection": collection, "record": record._asdict()}
    try:
        with draft.open("w", encoding="utf-8") as file:
            file.write(json.dumps(content, ensure_ascii=False))
            file.flush()
            os.fsync(file.fileno())
        draft.rename(folder / f"{stem}.json")
    except OSError:  # a full disk would fill up with halves
        draft.unlink(missing_ok=True)
        raise


def read_spooled(file: Path) -> tuple[str, Record] | None:
    """Return collection and record; a file that is none of ours is moved to `bad/`.

    Raises OSError where the disk or a limit of open files is at fault: the record may be sound.
    """
    try:
        content = json.loads(file.read_text("utf-8"))
        return checked_row(content["collection"], Record(**content["record"]))
    except FileNotFoundError:  # another worker moved it on
        return None
    except (ValueError, KeyError, TypeError, RecursionError, IsADirectoryError, PermissionError):
        with suppress(FileNotFoundError):  # so did another worker
            bad = file.parent / "bad"
            bad.mkdir(exist_ok=True)
            file.rename(bad / file.name)
        return None


def checked_row(collection: object, record: Record) -> tuple[str, Record]:
    """Return both; raise ValueError unless Chroma would store it, in a staging collection.

    One row it refuses would hold up all that wait behind it.
    """
    metadata: object = record.metadata
    usable = (
        isinstance(collection, str)
        and _STAGING_NAME.fullmatch(collection)
        and all(isinstance(text, str) and text for text in (record.id, record.document))
        and isinstance(metadata, dict)
        and metadata
        and all(map(is_storable, metadata.values()))
    )
    if not usable:
        raise ValueError("no row of ours")
    json.dumps(record, ensure_ascii=False).encode()  # raises for half of a surrogate pair
    return str(collection), record


def is_storable(value: object) -> bool:
    """Say whether Chroma takes a metadata value."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(entry, str) for entry in value)
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, str) or (isinstance(value, float) and math.isfinite(value))
