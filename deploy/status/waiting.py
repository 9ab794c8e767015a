"""What of the plugin's spool can be seen: how much waits, since when, and whether it is stuck."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from lessons_loop.deploy.status.facts import StoreStatus
from lessons_loop.filter.spool import Spool, oldest_spooled, spool_lock
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.clock import iso
from lessons_loop.promote.store.lock import is_held


def spool_status(title: str, paths: StorePaths | None) -> StoreStatus:
    """Return the status of a store of which only the spool was looked at; None: on a server."""
    if paths is None:
        return StoreStatus(title, [], None, 0)
    bad = paths.spool / "bad"
    return StoreStatus(
        title,
        [],
        Spool(paths).waiting(),
        len(list(bad.glob("*"))) if bad.is_dir() else 0,
        spool_since=since_of(oldest_spooled(paths.spool)),
        spool_held=is_held(spool_lock(paths)),
    )


def since_of(oldest: Path | None) -> str:
    """Return when a spooled file was written, "" where there is none any more."""
    with suppress(OSError):
        if oldest is not None:
            return iso(datetime.fromtimestamp(oldest.stat().st_mtime, UTC))
    return ""
