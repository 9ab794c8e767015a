"""The gate's lock on a server: one gate at a time on a domain, and who it is.

The lock is the collection `<domain>-lock`, because creating one is atomic. Its metadata
name the holder, a nonce and an expiry, which the holder moves forward while it works.
An expired lock is renamed by its id and only then made anew: of two gates that try,
the second finds the other's, never the old one.

Covered: crashes, frozen holders, two gates at once, hosts whose clocks differ (all times
are the server's own).
Not covered: a gate frozen between its last look at the lock and the write that follows,
for longer than the lock's term.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lessons_loop.filter.errors import LessonsError, StoreError, StoreUnreachable
from lessons_loop.promote.clock import iso, parse_iso
from lessons_loop.promote.errors import LockHeld, LockLost
from lessons_loop.promote.store.lock import command_name
from lessons_loop.promote.store.rows import chroma_errors, create_cosine, find_collection

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

LOCK_TERM = 60.0
"""Seconds a lock is good for without being renewed; renewed every third of it."""
MARGIN = 0.25
"""Part of the term an expired lock is still left alone: a server of several parts has clocks."""
TRIES = 5
_BOOT = Path("/proc/sys/kernel/random/boot_id")

_IN_USE: set[str] = set()
"""Nonces of this process's locks; any other one of ours could not be given up at its end."""

Connect = Callable[[], "ClientAPI"]


def lock_name(domain: str) -> str:
    """Return the name of a domain's lock."""
    return f"{domain}-lock"


@dataclass(frozen=True)
class Holder:
    """Who holds a lock, as its metadata say; anything may stand there."""

    nonce: str
    expires: datetime | None
    who: str
    place: str = ""
    """Boot and process namespace, so that a process number means the same process."""
    pid: int = 0
    started: str = ""

    @classmethod
    def of(cls, collection: Any) -> Holder:
        """Read a lock's metadata."""
        found = dict(collection.metadata or {})
        words = {name: str(found.get(name, "?"))[:120] for name in ("command", "pid", "host")}
        since = str(found.get("since", "?"))[:40]
        pid = found.get("pid")
        return cls(
            nonce=str(found.get("nonce", "")),
            expires=parse_iso(str(found.get("expires", ""))),
            who="`{command}` (pid {pid} on {host}, ".format_map(words) + f"since {since})",
            place=str(found.get("place", "")),
            pid=pid if type(pid) is int else 0,
            started=str(found.get("started", "")),
        )

    def is_gone(self, server_now: datetime, term: float) -> bool:
        """Say whether nobody holds the lock any more."""
        if self.place and self.place == this_place():
            own = self.pid == os.getpid()
            if process_start(self.pid) != self.started or (own and self.nonce not in _IN_USE):
                return True
        return self.expires is not None and server_now > self.expires + timedelta(
            seconds=term * MARGIN
        )

    @property
    def line(self) -> str:
        """Describe the holder."""
        if self.expires is None:
            return "something that is no gate of ours"
        return f"{self.who}, good until {iso(self.expires)}"


def this_place() -> str:
    """Return what tells this boot and process namespace from any other, "" if nothing does."""
    try:
        return f"{_BOOT.read_text().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def process_start(pid: int) -> str:
    """Return when a process of this machine began, in its own unit; "" where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


def server_time(client: ClientAPI) -> datetime:
    """Return the server's clock."""
    with chroma_errors("heartbeat"):
        return datetime.fromtimestamp(client.heartbeat() / 1e9, UTC)


def _uptime() -> float:
    """Return seconds of a clock that a suspended machine does not stop."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class ServerLock:
    """A lock that is held; use `server_lock`."""

    def __init__(self, connect: Connect, client: ClientAPI, domain: str, term: float) -> None:
        self.connect, self.client, self.term = connect, client, term
        self.name = lock_name(domain)
        self.nonce = secrets.token_hex(16)
        self.lost = ""
        """Who has it now, or why it is gone."""
        self._until = 0.0
        self._since = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_renewing, daemon=True)

    def take(self) -> None:
        """Create the lock, over the remains of a holder that is gone; raise LockHeld."""
        error: StoreError | None = None
        for _ in range(TRIES):
            try:
                self._create()
                return
            except StoreUnreachable:
                raise
            except StoreError as problem:  # it exists, or something is wrong
                error = problem
            try:
                self._make_room()
            except (LockHeld, StoreUnreachable):
                raise
            except StoreError as problem:  # it vanished between two calls
                error = problem
        raise error or LockHeld(f"{self.name} changes hands: try again")

    def _make_room(self) -> None:
        """Remove the remains of a holder that is gone; raise LockHeld while it is not."""
        if (found := find_collection(self.client, self.name)) is not None:
            refuse_held(found, self.client, self.term)
            set_aside(self.client, found, "expired")

    def _create(self) -> None:
        asked = _uptime()
        moment = server_time(self.client)
        self._since = iso(moment)
        create_cosine(self.client, self.name, self._note(moment))
        self._until = asked + self.term

    def _note(self, moment: datetime) -> dict[str, Any]:
        return {
            "nonce": self.nonce,
            "expires": (moment + timedelta(seconds=self.term)).isoformat(),
            "since": self._since,
            "pid": os.getpid(),
            "started": process_start(os.getpid()),
            "place": this_place(),
            "host": socket.gethostname(),
            "command": command_name(sys.argv),
        }

    def start(self) -> None:
        """Begin to renew it."""
        self._thread.start()

    def check(self) -> None:
        """Raise LockLost unless the lock is still ours; to be called before every write."""
        if not self.lost and _uptime() > self._until:
            self.lost = "it could not be renewed in time"
        if not self.lost:
            self._own(self.client)
        if self.lost:
            raise LockLost(
                f"{self.name} was lost ({self.lost}): nothing more is written, run again"
            )

    def _own(self, client: ClientAPI) -> Any | None:
        """Return the lock's collection while it is ours, else note who has it."""
        found = find_collection(client, self.name)
        if found is None:
            self.lost = "it is gone"
            return None
        holder = Holder.of(found)
        if holder.nonce != self.nonce:
            self.lost = f"taken by {holder.line}"
            return None
        return found

    def renew(self, client: ClientAPI) -> None:
        """Move the expiry forward; raise StoreError."""
        asked = _uptime()
        moment = server_time(client)
        if found := self._own(client):
            with chroma_errors(self.name):  # by its id: never somebody else's
                found.modify(metadata=self._note(moment))
            self._until = asked + self.term

    def _keep_renewing(self) -> None:
        wait = self.term / 3
        while not self._stop.wait(wait) and not self.lost:
            wait = self.term / 10
            with suppress(LessonsError), closing(self.connect()) as client:  # type: ignore[type-var]
                self.renew(client)
                wait = self.term / 3

    def release(self) -> None:
        """Give it up; what cannot be removed expires."""
        self._stop.set()
        self._thread.join(timeout=2)
        with suppress(StoreError):
            if found := self._own(self.client):
                set_aside(self.client, found, "released")


def set_aside(client: ClientAPI, collection: Any, word: str) -> None:
    """Take the lock's name away from one collection, by its id, and delete that one."""
    from chromadb.errors import NotFoundError

    aside = f"{collection.name}-{word}-{str(collection.id)[:8]}"
    with chroma_errors(collection.name), suppress(NotFoundError):
        collection.modify(name=aside)
        client.delete_collection(aside)


def refuse_held(collection: Any, client: ClientAPI, term: float = LOCK_TERM) -> None:
    """Raise LockHeld while a lock's holder is at work."""
    holder = Holder.of(collection)
    if not holder.is_gone(server_time(client), term):
        raise LockHeld(f"{collection.name} is held by {holder.line}: wait for it to end")


def refuse_locked(client: ClientAPI, domain: str) -> None:
    """Raise LockHeld while a gate works on a domain; write nothing."""
    if (found := find_collection(client, lock_name(domain))) is not None:
        refuse_held(found, client)


def drop_leftovers(client: ClientAPI, domain: str) -> None:
    """Delete what gates that died while changing the lock left behind."""
    left = re.compile(rf"{re.escape(lock_name(domain))}-(expired|released)-[0-9a-f]{{8}}")
    with chroma_errors(lock_name(domain)):
        names = [found.name for found in client.list_collections()]
    for name in names:
        if left.fullmatch(name):
            with suppress(StoreError), chroma_errors(name):
                client.delete_collection(name)


@contextmanager
def server_lock(
    connect: Connect, client: ClientAPI, domain: str, term: float = LOCK_TERM
) -> Iterator[ServerLock]:
    """Hold a domain's lock for the block; raise LockHeld, naming the holder and the expiry."""
    lock = ServerLock(connect, client, domain, term)
    _IN_USE.add(lock.nonce)
    try:
        lock.take()
        lock.start()
        try:
            drop_leftovers(client, domain)
            yield lock
        finally:
            lock.release()
    finally:
        _IN_USE.discard(lock.nonce)
