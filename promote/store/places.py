"""Where a store's collections live: the folders of one machine, or a server's databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lessons_loop.filter.store import (
    StorePaths,
    crash_marker,
    open_embedded,
    refuse_locked_database,
    staging_session,
)
from lessons_loop.promote.files import file_errors, private_folder, public_folder
from lessons_loop.promote.store.child import ORPHAN_SECONDS
from lessons_loop.promote.store.chroma import DATABASE, load_chroma
from lessons_loop.promote.store.lock import gate_lock
from lessons_loop.promote.store.repair import clear_sound_marker, gate_marker, refuse_torn_gate

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

STAGING_SECONDS = 10.0
"""How long the gate waits for the plugin's short sessions."""


def no_guard() -> None:
    """Do nothing: a lock of the kernel's cannot be lost."""


def no_lock(domain: str) -> AbstractContextManager[None]:
    """Hold nothing more: the folder's lock is for all its domains."""
    return nullcontext()


@dataclass(frozen=True)
class Clients:
    """Open clients of a store, for the time its lock is held."""

    curated: ClientAPI
    gate: ClientAPI
    """Where the archive lives; in a folder the same client."""
    guard: Callable[[], None] = no_guard
    """Raises StoreError where the lock is lost: to be called before every write."""
    lock_also: Callable[[str], AbstractContextManager[None]] = no_lock
    """Holds another domain's lock for a block; raises LockHeld."""


class StagingPlace(Protocol):
    """Where candidates and events wait."""

    def staging(self, *, create: bool = False) -> AbstractContextManager[ClientAPI | None]:
        """Open staging for one short piece of work; None where there is none and none is made.

        Raises StoreLocked, StoreDamaged, StoreUnreachable, StoreMissing.
        """


class LessonStore(StagingPlace, Protocol):
    """A store as a gate opens it."""

    @property
    def state(self) -> Path:
        """The state directory: ledger, journal, snapshots."""

    @property
    def title(self) -> str:
        """What messages call it; holds no secret."""

    def make_layout(self) -> None:
        """Make the folders that are missing."""

    def opened(self, domain: str, now: Callable[[], datetime]) -> AbstractContextManager[Clients]:
        """Take the lock, open the clients; raise LockHeld, StoreError."""

    def published(self, domain: str) -> Path | None:
        """Return the file recall reads, None where recall reads curated itself."""


@dataclass(frozen=True)
class FolderStore:
    """A folder: embedded Chroma, one process at a time."""

    paths: StorePaths
    state: Path

    @property
    def title(self) -> str:
        """The folder."""
        return str(self.paths.root)

    def make_layout(self) -> None:
        """Make the folders: published is for everybody, the rest for the owner only."""
        public_folder(self.paths.root)
        public_folder(self.paths.published("x").parent)
        for folder in (self.paths.gate, self.paths.staging, self.paths.spool, self.state):
            private_folder(folder)

    @contextmanager
    def opened(self, domain: str, now: Callable[[], datetime]) -> Iterator[Clients]:
        """Hold the folder's lock and one embedded client."""
        with gate_lock(self.paths.gate_lock, now), embedded_gate(self.paths) as client:
            yield Clients(client, client)

    @contextmanager
    def staging(self, *, create: bool = False) -> Iterator[ClientAPI | None]:
        """Open staging under its lock, where the last session did not end in a crash."""
        if not create and not self.paths.staging.is_dir():
            yield None
            return
        clear_sound_marker(self.paths, STAGING_SECONDS)
        with (
            file_errors(self.paths.staging),
            staging_session(self.paths, STAGING_SECONDS) as client,
        ):
            yield client

    def published(self, domain: str) -> Path | None:
        """Return the domain's published file."""
        return self.paths.published(domain)


@contextmanager
def embedded_gate(paths: StorePaths) -> Iterator[ClientAPI]:
    """Open the gate's Chroma folder; the caller holds the gate's lock."""
    load_chroma()
    refuse_locked_database(paths.gate / DATABASE, ORPHAN_SECONDS)
    refuse_torn_gate(paths)
    with crash_marker(gate_marker(paths)):
        client = open_embedded(paths.gate)
        try:
            yield client
        finally:
            client.close()  # type: ignore[attr-defined]  # drops the index and the files
