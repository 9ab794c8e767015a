"""The curated lessons in memory, refreshed by a timer and never by a request."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from lessons_loop.filter.alerts import Alerts, lessons_log
from lessons_loop.filter.embed import Fingerprint
from lessons_loop.filter.errors import LessonsError, StoreUnreachable
from lessons_loop.filter.published import PublishedSet
from lessons_loop.filter.recall_index import RecallIndex, build_index
from lessons_loop.filter.shelves import Shelf, ShelfSource
from lessons_loop.filter.store import first_line
from lessons_loop.filter.worker import in_daemon_thread

REFRESH_SECONDS = 10.0


class Loaded(NamedTuple):
    """What is in memory."""

    recall: RecallIndex
    fingerprint: Fingerprint | None


class CuratedReader:
    """Keeps the lessons of some domains from one source; keeps the last good state."""

    def __init__(self, source: ShelfSource, domains: tuple[str, ...], alerts: Alerts) -> None:
        self.source, self.domains, self.alerts = source, domains, alerts
        self.loaded: Loaded | None = None
        self.closed = False
        self._shelves: dict[str, Shelf] = {}
        self._built: list[PublishedSet] = []
        self._lock = threading.Lock()
        self._first: asyncio.Task[bool] | None = None
        self._given_up: asyncio.Task[bool] | None = None

    @property
    def complete(self) -> bool:
        """Say whether each domain was read: what is not there then is not in the store."""
        return all(domain in self._shelves for domain in self.domains)

    async def first_load(self, seconds: float) -> Loaded | None:
        """Read the lessons once, shared by all chats that wait for it; only the first wait long.

        A chat that finds others to have waited in vain goes on at once.
        """
        if self._first is None or self._first.done():
            work = in_daemon_thread(self.refresh)
            self._first = asyncio.get_running_loop().create_task(work)
        if self._first is self._given_up:
            return self.loaded
        try:
            await asyncio.wait_for(asyncio.shield(self._first), seconds)
        except TimeoutError:
            self._given_up = self._first
            self.alerts.warn(
                "reading lessons", f"{self.source.place} is slow: check its disk or its server"
            )
        return self.loaded

    def refresh(self) -> bool:
        """Read what changed; return whether anything did. Blocking: call in a thread."""
        with self._lock:
            return False if self.closed else self._refresh()

    def close(self) -> None:
        """End the reader's connections once a running refresh is through; blocking."""
        self.closed = True
        with self._lock:
            self.source.close()

    def _refresh(self) -> bool:
        failed: dict[str, Exception] = {}
        for domain in self.domains:
            self._fetch(domain, failed)
        self._tell(failed)
        sets = [s for d in self.domains if (s := self._lessons(d)) is not None]
        if self.loaded is not None and [*map(id, sets)] == [*map(id, self._built)]:
            return False
        prints = [s.header.fingerprint for s in sets if s.header.fingerprint]
        index = build_index(sets)
        self._tell_models_apart(index, prints)
        self.loaded, self._built = Loaded(index, prints[0] if prints else None), sets
        counts = ", ".join(f"{len(one.keys)} {one.header.domain}" for one in sets)
        read = counts or "none yet, chats go on without"
        lessons_log.info("lessons in %s: %s", self.source.place, read)
        return True

    def _fetch(self, domain: str, failed: dict[str, Exception]) -> None:
        if isinstance(common_error(failed, 0), StoreUnreachable):
            return  # its time limit is paid once, not per domain
        try:
            self._shelves[domain] = self.source.fetch(domain, self._shelves.get(domain))
        except (LessonsError, OSError, MemoryError) as error:
            failed[domain] = error

    def _lessons(self, domain: str) -> PublishedSet | None:
        shelf = self._shelves.get(domain)
        return shelf.lessons if shelf else None

    def _tell(self, failed: Mapping[str, Exception]) -> None:
        """Warn once per trouble, and once in all where it is the source's as a whole."""
        if self.closed:
            return
        shared = common_error(failed, len(self.domains))
        self._tell_one("reading lessons", shared)
        if isinstance(shared, StoreUnreachable):  # nothing is known of the domains
            return
        for domain in self.domains:
            own = None if shared else failed.get(domain)
            self._tell_one(f"reading lessons of {domain}", own)
            shelf = self._shelves.get(domain)
            self._note(f"the lessons of {domain}", shelf.note if shelf else "")

    def _tell_one(self, trouble: str, error: Exception | None) -> None:
        if error is None:
            self.alerts.clear(trouble)
            return
        kept = any(s.lessons and s.lessons.keys for s in self._shelves.values())
        rest = "the lessons read before stay in use" if kept else "none are recalled meanwhile"
        self.alerts.warn(trouble, f"{first_line(error, 400)}; {rest}")

    def _note(self, trouble: str, note: str) -> None:
        if note:
            self.alerts.warn(trouble, note)
        else:
            self.alerts.clear(trouble)

    def _tell_models_apart(self, index: RecallIndex, prints: Sequence[Fingerprint]) -> None:
        if index.dimension or not prints:
            self.alerts.clear("comparing lessons")
            return
        names = " and ".join(dict.fromkeys(p.name or "an unnamed model" for p in prints))
        self.alerts.warn(
            "comparing lessons",
            f"the domains' lessons do not all have vectors of one model ({names}): lessons are "
            "recalled by words alone; run `lessons reembed` for each domain",
        )


def common_error(failed: Mapping[str, Exception], domains: int) -> Exception | None:
    """Return the error that is the source's as a whole: out of reach, or the same everywhere."""
    errors = list(failed.values())
    for error in errors:
        if isinstance(error, StoreUnreachable):
            return error
    alike = len({first_line(error) for error in errors}) == 1
    return errors[0] if alike and len(errors) == domains > 1 else None


def keep_refreshed(
    owner: object, tick: Callable[[object], Awaitable[None]], seconds: float = REFRESH_SECONDS
) -> asyncio.Task[None]:
    """Call `tick(owner)` every `seconds` until the owner is gone.

    Open WebUI replaces the plugin's instance on every edit; a strong reference
    here would keep each old one alive with its lessons.
    """
    weak = weakref.ref(owner)

    async def loop() -> None:
        while True:
            await asyncio.sleep(seconds)
            alive = weak()
            if alive is None:
                return
            await tick(alive)
            del alive

    return asyncio.get_running_loop().create_task(loop())
