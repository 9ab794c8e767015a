"""A domain's snapshots as files: their names, which one a person means, which ones go.

Names are times and sort as they were taken, also after the clock was set back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from lessons_loop.filter.errors import StoreDamaged, StoreError
from lessons_loop.promote.clock import parse_iso, stamp
from lessons_loop.promote.files import file_errors
from lessons_loop.promote.snapshot.tar import read_manifest

KEEP_DAYS = 30
KEEP_LAST = 8
KEEP_MOST = 60
"""Beyond it, of each day but the last only the newest is kept: an hourly gate makes 720 a month."""
SUFFIX = ".tar.gz"
RESTORE = "restore"
"""Purpose of the snapshots a restore takes of what it replaces."""
_STAMP = re.compile(r"[0-9]{8}T[0-9]{6}[0-9]{6}Z\Z")
_STAMP_FORMAT = "%Y%m%dT%H%M%S%fZ"


def snapshot_folder(state: Path, domain: str) -> Path:
    """Return where a domain's snapshots lie."""
    return state / "snapshots" / domain


def list_snapshots(state: Path, domain: str) -> list[Path]:
    """Return a domain's snapshots, oldest first; they are not opened."""
    folder = snapshot_folder(state, domain)
    with file_errors(folder):
        found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in found if _is_named(path)]


def old_folders(state: Path) -> list[Path]:
    """Return the snapshot folders of the last release, which this one leaves alone."""
    parent = state / "snapshots"
    with file_errors(parent):
        found = sorted(parent.iterdir()) if parent.is_dir() else []
    return [path for path in found if (path / "manifest.json").is_file()]


def prune(state: Path, domain: str, moment: datetime, spare: str = "") -> list[Path]:
    """Delete what is older than 30 days and thin out very many; return what went.

    Never the last 8, nor `spare`, nor, while it is young, one that a person or a restore took.
    """
    found = list_snapshots(state, domain)
    gone = [path for path in found[:-KEEP_LAST] if _is_old(path, moment) and path.name != spare]
    left = [path for path in found if path not in set(gone)]
    if len(left) > KEEP_MOST:
        gone += [path for path in _repeated(left, moment) if path.name != spare]
    for path in gone:
        path.unlink(missing_ok=True)
    return gone


def _is_old(path: Path, moment: datetime) -> bool:
    return moment - taken_at(path) > timedelta(days=KEEP_DAYS)


def _repeated(paths: Sequence[Path], moment: datetime) -> list[Path]:
    """Return those of before the last day that a newer one of the same day stands beside."""
    older = [path for path in paths[:-KEEP_LAST] if moment - taken_at(path) > timedelta(days=1)]
    newest = {taken_at(path).date(): path for path in paths}
    return [p for p in older if newest[taken_at(p).date()] != p and not _has_purpose(p)]


def _has_purpose(path: Path) -> bool:
    try:
        return bool(read_manifest(path).purpose)
    except StoreDamaged:
        return False


def taken_at(path: Path) -> datetime:
    """Return when a snapshot was taken, by its name."""
    return datetime.strptime(f"{name_of(path)}+0000", f"{_STAMP_FORMAT}%z")


def name_of(path: Path) -> str:
    """Return what a person calls a snapshot: its name without the ending."""
    return path.name.removesuffix(SUFFIX)


def find_snapshot(state: Path, domain: str, when: str) -> Path:
    """Return the snapshot `when` means; raise StoreError naming those there are.

    `when`: a name or the beginning of one, a day or moment (the newest up to then, UTC), or
    `latest`: the newest that no restore took.
    """
    paths, wanted = list_snapshots(state, domain), when.strip()
    if not paths:
        raise StoreError(f"there is no snapshot of {domain} in {snapshot_folder(state, domain)}")
    if wanted == "latest":
        return _latest(paths)
    named = [path for path in paths if path.name.startswith(wanted)] if wanted else []
    if len(named) > 1 and wanted not in (name_of(path) for path in named):
        raise StoreError(f"{wanted} means {len(named)} snapshots, {_few(named)}: give more of one")
    if named:
        return named[0]
    until = _moment(wanted)
    if until is None:
        raise StoreError(
            f"no snapshot of {domain} is called {wanted[:40]!r}; there are {_few(paths)}"
        )
    earlier = [path for path in paths if taken_at(path) <= until]
    if not earlier:
        raise StoreError(f"no snapshot of {domain} is that old; the first is {name_of(paths[0])}")
    return earlier[-1]


def _latest(paths: Sequence[Path]) -> Path:
    for path in reversed(paths):
        try:
            if read_manifest(path).purpose != RESTORE:
                return path
        except StoreDamaged:
            return path  # whoever reads it says what is wrong with it
    return paths[-1]


def _moment(text: str) -> datetime | None:
    """Return the last moment a person means: a day means all of it."""
    moment = parse_iso(text)
    if moment is not None and re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return moment + timedelta(days=1) - timedelta(microseconds=1)
    return moment


def _few(paths: Sequence[Path], most: int = 3) -> str:
    names = [name_of(path) for path in paths[-most:]]
    return ("…, " if len(paths) > most else "") + ", ".join(names)


def _is_named(path: Path) -> bool:
    return path.name.endswith(SUFFIX) and _STAMP.match(name_of(path)) is not None


def next_stamp(folder: Path, moment: datetime) -> str:
    """Return a name behind all there are, also after the clock was set back."""
    names = [name_of(path) for path in folder.iterdir() if _is_named(path)]
    if not names or stamp(moment) > max(names):
        return stamp(moment)
    newest = datetime.strptime(f"{max(names)}+0000", f"{_STAMP_FORMAT}%z")
    return stamp(newest + timedelta(microseconds=1))


def drop_drafts(folder: Path) -> None:
    """Delete what runs that died left half written."""
    for draft in folder.glob(".*.tmp"):  # the lock says nobody writes now
        draft.unlink(missing_ok=True)
