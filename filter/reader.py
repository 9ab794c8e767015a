"""The curated lessons in memory, refreshed by a timer and never by a request."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from lessons_loop.filter.alerts import Alerts
from lessons_loop.filter.embed import Fingerprint
from lessons_loop.filter.errors import LessonsError, StoreDamaged
from lessons_loop.filter.published import PublishedSet, read_published
from lessons_loop.filter.recall import RecallIndex, build_index
from lessons_loop.filter.store import StorePaths, first_line

REFRESH_SECONDS = 10.0
Stamp = tuple[int, int, int] | None
UNREAD: Stamp = (-1, -1, -1)
"""Stamp of a file that could not be read: it is tried again at the next refresh."""


class Loaded(NamedTuple):
    """What is in memory, and of which files."""

    recall: RecallIndex
    fingerprint: Fingerprint | None
    stamps: tuple[tuple[str, Stamp], ...]


class CuratedReader:
    """Reads published files of one store and its domains; keeps the last good state."""

    def __init__(self, paths: StorePaths, domains: tuple[str, ...], alerts: Alerts) -> None:
        self.paths, self.domains, self.alerts = paths, domains, alerts
        self.loaded: Loaded | None = None
        self._built: list[PublishedSet] = []
        self._sets: dict[str, tuple[Stamp, PublishedSet | None]] = {}

    def refresh(self) -> bool:
        """Read the files that changed; return whether anything did. Blocking: call in a thread."""
        stamps = tuple((d, stamp_of(self.paths.published(d))) for d in self.domains)
        if self.loaded is not None and self.loaded.stamps == stamps:
            return False
        sets = [found for domain, stamp in stamps if (found := self._read(domain, stamp))]
        if self.loaded is not None and [*map(id, sets)] == [*map(id, self._built)]:
            return False
        self._built = sets
        prints = [s.header.fingerprint for s in sets if s.header.fingerprint]
        index = build_index(sets)
        self._tell_models_apart(index, prints)
        read = tuple((domain, self._sets[domain][0]) for domain in self.domains)
        self.loaded = Loaded(index, prints[0] if prints else None, read)
        return True

    def _tell_models_apart(self, index: RecallIndex, prints: Sequence[Fingerprint]) -> None:
        if index.dimension or not prints:
            self.alerts.clear("comparing lessons")
            return
        names = " and ".join(dict.fromkeys(p.name or "an unnamed model" for p in prints))
        self.alerts.warn(
            "comparing lessons",
            f"the domains' lessons do not all have vectors of one model ({names}): lessons are "
            "recalled by words alone; run `lessons re-embed` for each domain",
        )

    def _read(self, domain: str, stamp: Stamp) -> PublishedSet | None:
        known = self._sets.get(domain)
        if known and known[0] == stamp:
            return known[1]
        trouble = f"the published lessons of {domain}"
        try:
            found = read_published(self.paths.published(domain))
        except (LessonsError, OSError, MemoryError) as error:
            self.alerts.warn(trouble, f"{first_line(error)}; the lessons read before stay in use")
            found = known[1] if known else None
            # A damaged file stays so until it is replaced; permissions and disks recover alone.
            stamp = stamp if isinstance(error, StoreDamaged) else UNREAD
        else:
            self.alerts.clear(trouble)
        self._sets[domain] = (stamp, found)
        return found


def stamp_of(path: Path) -> Stamp:
    """Return what changes when a file is replaced or edited, None when it is not there."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError:  # no permission, a file where a folder should be: the read tells
        return 0, 0, 0
    return status.st_mtime_ns, status.st_size, status.st_ino


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
