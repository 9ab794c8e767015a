"""Snapshots: everything a domain's gate knows, taken before every run that writes.

    state/snapshots/<domain>/<UTC time>.tar.gz    see `tar.py`

A file appears under its name only when complete. Kept for 30 days, and never fewer than the
last 8 of a domain; beyond 60, one a day of those that no person asked for. Folders of the last
release, `state/snapshots/<time>-<run>/`, are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lessons_loop.filter.errors import StoreDamaged
from lessons_loop.promote.clock import iso
from lessons_loop.promote.files import file_errors, private_folder
from lessons_loop.promote.snapshot.files import (
    SUFFIX,
    drop_drafts,
    list_snapshots,
    next_stamp,
    old_folders,
    prune,
    snapshot_folder,
)
from lessons_loop.promote.snapshot.rows import Snapshot, as_members, parse_parts
from lessons_loop.promote.snapshot.taken import contents_of
from lessons_loop.promote.snapshot.tar import (
    read_manifest,
    read_parts,
    write_file,
)

if TYPE_CHECKING:
    from lessons_loop.promote.session import GateSession

__all__ = [
    "Occasion",
    "Snapshot",
    "create_snapshot",
    "list_snapshots",
    "old_folders",
    "read_manifest",
    "read_snapshot",
    "rewrite_snapshot",
]


class Occasion(NamedTuple):
    """Why a snapshot is taken, and what must outlive it."""

    purpose: str = ""
    """`restore`, or a person's reason; empty: before a run."""
    spare: str = ""
    """Name of an older snapshot that is not deleted now."""


def create_snapshot(session: GateSession) -> Path:
    """Write a snapshot of what the session's domain holds now; return it; raise StoreError."""
    folder = snapshot_folder(session.state, session.domain)
    private_folder(folder.parent)
    private_folder(folder)
    moment = session.now()
    path = folder / f"{next_stamp(folder, moment)}{SUFFIX}"
    manifest, members = as_members(contents_of(session, iso(moment)))
    with file_errors(folder):
        drop_drafts(folder)
        write_file(path, manifest, members)
        prune(session.state, session.domain, moment, session.occasion.spare)
    return path


def read_snapshot(path: Path) -> Snapshot:
    """Return a snapshot that is whole and of which every row fits; raise StoreDamaged."""
    try:
        manifest, parts = read_parts(path)
        return parse_parts(manifest, parts, path)
    except StoreDamaged as error:
        raise StoreDamaged(f"{error}; `lessons snapshot list` shows the others") from None


def rewrite_snapshot(path: Path, keep: Callable[[Snapshot], Snapshot]) -> Path:
    """Replace a snapshot by what `keep` leaves of it, in one step; raise StoreError.

    Vectors of rows that went go too; the manifest is made anew and says so.
    """
    kept = keep(read_snapshot(path))
    manifest, members = as_members(kept)
    write_file(path, manifest.model_copy(update={"rewritten": True}), members)
    return path
