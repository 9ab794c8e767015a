"""The chat side's store: read published lessons, append to staging; no other verb exists.

Layout of a store folder (one machine):

    published/<domain>.lessons   one file per domain, written by the gate, read by recall
    spool/  spool.lock           records waiting for staging, one fsynced file each
    staging/  staging.lock  staging.open     Chroma folder, its lock, the crash marker
    gate/     gate.lock          curated and archive (Chroma) and their lock: the gate's alone
    state/                       ledger, journal, payloads, snapshots: the gate's alone
    salt                         key for user references
    ratings.sqlite  attempts.sqlite      thumbs noted, answers distilled: hashes; under way: ids

Two processes must never both hold an embedded Chroma client on one folder (vectors are
lost without an error), so staging is opened only in short sessions under its file lock.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from lessons_loop.filter.errors import StoreDamaged, StoreError, StoreLocked
from lessons_loop.filter.events import Usage
from lessons_loop.filter.models import Candidate, Record
from lessons_loop.filter.staging_made import staging_collection

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

POLL_SECONDS = 0.05
PRIVATE = 0o700
"""Of folders with candidates: Chroma's index files carry leftovers of the process's memory."""
APPEND_BATCH = 50
STAGING_VECTOR = [1.0]


@dataclass(frozen=True)
class StorePaths:
    """Where everything lies inside one store folder."""

    root: Path

    @property
    def staging(self) -> Path:
        """Chroma folder of candidates and events."""
        return self.root / "staging"

    @property
    def staging_lock(self) -> Path:
        """Held during every session on `staging`."""
        return self.root / "staging.lock"

    @property
    def staging_marker(self) -> Path:
        """Exists only while a session is open; left behind by a crash inside one."""
        return self.root / "staging.open"

    @property
    def gate(self) -> Path:
        """Chroma folder of curated and archive; only the gate opens it."""
        return self.root / "gate"

    @property
    def gate_lock(self) -> Path:
        """Held by a gate for its whole run."""
        return self.root / "gate.lock"

    @property
    def spool(self) -> Path:
        """Records waiting for staging."""
        return self.root / "spool"

    @property
    def ratings(self) -> Path:
        """What the rating plugin has noted of each thumb."""
        return self.root / "ratings.sqlite"

    @property
    def salt(self) -> Path:
        """Key for user references, readable by the owner only."""
        return self.root / "salt"

    @property
    def state(self) -> Path:
        """Default state directory of the gate."""
        return self.root / "state"

    def published(self, domain: str) -> Path:
        """Return the published file of one domain."""
        return self.root / "published" / f"{domain}.lessons"


def collection_names(domain: str) -> dict[str, str]:
    """Return the four data sets' collection names of a domain."""
    base = f"{domain}-lessons"
    return {
        "curated": base,
        "candidates": f"{base}-candidates",
        "events": f"{base}-events",
        "archive": f"{base}-archive",
    }


def ensure_salt(paths: StorePaths) -> bytes:
    """Return the salt (`LESSONS_SALT`, else the file), made by whoever comes first."""
    if value := os.environ.get("LESSONS_SALT", "").strip():
        return value.encode()
    try:
        paths.root.mkdir(parents=True, exist_ok=True)
        if not paths.salt.exists():
            _make_salt(paths.salt)
    except FileExistsError:
        pass  # another process came first, or the folder's place is taken: the read tells
    except OSError as error:
        raise StoreError(f"{paths.salt} cannot be made: {error.strerror}") from None
    return _read_salt(paths.salt)


def _make_salt(path: Path) -> None:
    """Write a new salt whole or not at all: an empty one left by a full disk would stay."""
    draft = path.with_name(f".salt.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(32))
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)  # unlike a rename it never replaces another process's salt
    finally:
        draft.unlink(missing_ok=True)


def _read_salt(path: Path) -> bytes:
    for _ in range(40):  # the other process may be between create and write
        try:
            value = path.read_bytes().strip()
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror}") from None
        if value:
            return value
        time.sleep(POLL_SECONDS)
    raise StoreDamaged(f"{path} is empty: restore it from a backup, or delete it to start anew")


@contextmanager
def file_lock(path: Path, seconds: float) -> Iterator[None]:
    """Hold an exclusive lock on `path`; raise StoreLocked after `seconds` of polling."""
    deadline = time.monotonic() + seconds
    with opened_lock(path) as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise StoreLocked(f"{path} is held by another process") from None
                time.sleep(POLL_SECONDS)
        yield


def opened_lock(path: Path) -> IO[str]:
    """Open a lock file, made where missing; raise StoreError where that is not allowed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+")
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror}") from None


@contextmanager
def staging_session(paths: StorePaths, seconds: float = 5.0) -> Iterator[ClientAPI]:
    """Open staging for one small batch under its lock, then close it.

    Raises StoreLocked when the lock or Chroma's own database stays taken, and
    StoreDamaged when an earlier session ended in a crash: opening such a folder
    again may kill the process, so only the gate's repair may.
    """
    with file_lock(paths.staging_lock, seconds):
        if paths.staging_marker.exists():
            raise StoreDamaged(
                f"{paths.staging} was open when a process died: run `lessons repair`"
            )
        refuse_locked_database(paths.staging / "chroma.sqlite3")
        with crash_marker(paths.staging_marker):
            client = open_embedded(paths.staging)
            try:
                yield client
            finally:
                client.close()  # type: ignore[attr-defined]  # drops the index and the files


@contextmanager
def crash_marker(path: Path) -> Iterator[None]:
    """Keep `path` in existence for the block; a Python error removes it, a crash does not."""
    try:
        path.write_text(json.dumps({"pid": os.getpid(), "since": time.time()}))
    except OSError as error:
        path.unlink(missing_ok=True)  # made but not filled on a full disk: no crash happened
        raise StoreError(f"{path} cannot be written: {error.strerror}") from None
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def refuse_locked_database(database: Path, seconds: float = 0.0) -> None:
    """Raise StoreLocked when somebody holds Chroma's database for longer than `seconds`.

    Chroma would wait for it with the interpreter lock held, freezing every chat
    (measured: 6 s for a 6 s lock). Safe only while this process has no client on
    the folder: closing a second handle drops POSIX locks of the first.
    """
    if not database.exists():
        return
    try:
        with closing(sqlite3.connect(database, seconds, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise StoreLocked(f"{database} is locked by another program") from None
        raise StoreError(f"{database} cannot be written: {error}") from None
    except sqlite3.DatabaseError as error:
        raise StoreDamaged(f"{database} is no database: {error}; run `lessons repair`") from None


def import_chromadb() -> None:
    """Load chromadb, which takes a second; raise StoreError when that cannot be done."""
    try:
        import chromadb  # noqa: F401
    except ImportError:
        raise StoreError("chromadb is not installed: the lesson store needs it") from None
    except ValueError as error:  # it reads `.env` of the current folder while being imported
        raise StoreError(f"chromadb cannot be loaded: {first_line(error)}") from None


def open_embedded(folder: Path) -> ClientAPI:
    """Return an embedded Chroma client; raise StoreError with one line."""
    import_chromadb()
    import chromadb
    from chromadb.config import Settings

    try:
        folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
        return chromadb.PersistentClient(
            path=str(folder), settings=Settings(anonymized_telemetry=False)
        )
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # chromadb's Rust core panics with a BaseException
        raise StoreError(f"{folder} cannot be opened: {first_line(error)}") from None


def first_line(error: BaseException, most: int = 200) -> str:
    """Return an error's first line, for a message of ours."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:most]


class CandidateAppender(Protocol):
    """May add candidates, and nothing else."""

    def append_candidates(self, candidates: Sequence[Candidate]) -> None:
        """Keep the candidates durably; raise StoreError when not even that works."""


class EventAppender(Protocol):
    """May add events, and nothing else."""

    def append_usage(self, domain: str, usage: Usage) -> None:
        """Keep the event durably; raise StoreError when not even that works."""


def append_records(client: Any, name: str, records: Sequence[Record]) -> None:
    """Add rows to a staging collection and read their ids back; raise StoreError."""
    ids = [record.id for record in records]
    try:
        collection = staging_collection(client, name)
        collection.add(
            ids=ids,
            documents=[record.document for record in records],
            metadatas=[dict(record.metadata) for record in records],
            embeddings=[STAGING_VECTOR] * len(ids),
        )
        found = set(collection.get(ids=ids, include=[])["ids"])
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # chromadb's Rust core panics with a BaseException
        raise StoreError(f"{name} was not written: {first_line(error)}") from None
    if missing := set(ids) - found:
        raise StoreError(f"{name}: {len(missing)} of {len(ids)} rows were not stored")
