"""Where curated lessons come from: a source tells whether they changed and reads them.

A source never writes. Here the published files of a store folder; a server's collections
are in `server_shelf`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from lessons_loop.filter.errors import StoreDamaged
from lessons_loop.filter.published import PublishedSet, read_published
from lessons_loop.filter.store import StorePaths

Stamp = tuple[Any, ...] | None


class Shelf(NamedTuple):
    """A domain's lessons as last read."""

    stamp: Stamp
    lessons: PublishedSet | None
    note: str = ""
    """What an administrator should know about them; empty: nothing."""


class ShelfSource(Protocol):
    """Gives a reader the lessons of each domain; blocking, called from one thread at a time."""

    @property
    def place(self) -> str:
        """What to call it in a message."""

    def fetch(self, domain: str, known: Shelf | None) -> Shelf:
        """Return the domain's lessons, `known` itself where nothing changed; raise StoreError."""

    def close(self) -> None:
        """Let go of connections."""


class PublishedFolder:
    """Published files of one store folder."""

    def __init__(self, paths: StorePaths) -> None:
        self.paths = paths
        self._damaged: dict[str, tuple[Stamp, StoreDamaged]] = {}

    @property
    def place(self) -> str:
        """Return the folder."""
        return str(self.paths.root / "published")

    def fetch(self, domain: str, known: Shelf | None) -> Shelf:
        """Read the file when it changed; one found damaged is not read again until replaced."""
        path = self.paths.published(domain)
        stamp = stamp_of(path)
        if known is not None and known.stamp == stamp:
            return known
        refused = self._damaged.get(domain)
        if refused is not None and refused[0] == stamp:
            raise refused[1]
        try:
            return Shelf(stamp, read_published(path))
        except StoreDamaged as error:
            self._damaged[domain] = (stamp, error)
            raise

    def close(self) -> None:
        """Nothing is kept open."""


def stamp_of(path: Path) -> Stamp:
    """Return what changes when a file is replaced or edited, None when it is not there."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError:  # no permission, a file where a folder should be: the read tells
        return 0, 0, 0
    return status.st_mtime_ns, status.st_size, status.st_ino
