"""Snapshots after somebody was forgotten: rewritten without the rows, with new manifests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lessons_loop.filter.errors import StoreDamaged
from lessons_loop.filter.models import Curated, Status
from lessons_loop.promote.forget.files import remove
from lessons_loop.promote.forget.forgotten import Forgotten
from lessons_loop.promote.forget.survey import without_uses
from lessons_loop.promote.records import Archived
from lessons_loop.promote.snapshot.files import drop_drafts
from lessons_loop.promote.snapshot.kept import (
    Snapshot,
    list_snapshots,
    old_folders,
    read_snapshot,
    rewrite_snapshot,
)


def clean_snapshots(state: Path, known: Forgotten, *, dry_run: bool) -> int:
    """Rewrite every domain's snapshots that hold rows of the forgotten; return how many.

    One that cannot be read, or of a release before these files, goes: nobody can tell what
    is in it. For the holder of the gate's lock. Raises StoreError.
    """
    folder = state / "snapshots"
    domains = (
        sorted(one.name for one in folder.iterdir() if one.is_dir()) if folder.is_dir() else []
    )
    for domain in domains if not dry_run else ():
        drop_drafts(folder / domain)
    count = sum(
        _clean(path, known, dry_run) for domain in domains for path in list_snapshots(state, domain)
    )
    old = old_folders(state)
    return count + (len(old) if dry_run else remove(old))


def _clean(path: Path, known: Forgotten, dry_run: bool) -> bool:
    try:
        found = read_snapshot(path)
    except StoreDamaged:
        if not dry_run:
            remove([path])
        return True
    if cleaned(found, known) is found:
        return False
    if not dry_run:
        rewrite_snapshot(path, lambda snapshot: cleaned(snapshot, known))
    return True


def cleaned(snapshot: Snapshot, known: Forgotten) -> Snapshot:
    """Return a snapshot without the forgotten; the very same where it holds none of them."""
    gone = [use for use in snapshot.uses if known.covers_event(use)]
    lost = {use.id for use in gone}
    to_hold = [row for row in snapshot.curated if known.covers_key(row.key, row.verdict_ref)]
    held = {row.id: row for row in map(_held, to_hold)}
    archive = [row for row in snapshot.archive if row.id not in held]
    archive = [known.cleaned(row) for row in archive if not known.drops(row)]
    vectors = dict(snapshot.archive_vectors)
    vectors |= {
        row.id: snapshot.vectors[row.lesson.key]
        for row in held.values()
        if row.lesson.key in snapshot.vectors
    }
    parts = {
        "curated": tuple(
            without_uses(row, [use for use in gone if row.key in use.keys])
            for row in snapshot.curated
            if row not in to_hold
        ),
        "archive": (*archive, *held.values()),
        "candidates": tuple(c for c in snapshot.candidates if not known.covers_candidate(c)),
        "events": tuple(one for one in snapshot.events if not known.covers_event(one)),
        "uses": tuple(use for use in snapshot.uses if use.id not in lost),
    }
    if all(parts[name] == getattr(snapshot, name) for name in parts):
        return snapshot
    return replace(snapshot, archive_vectors=vectors, **parts)  # type: ignore[arg-type]


def _held(row: Curated) -> Archived:
    return Archived(
        lesson=row.lesson.model_copy(update={"status": Status.HELD}),
        reason="forget: what it rested on was forgotten: decide on it anew",
        at=row.since,
        ledger_ref=row.verdict_ref,
        curated=row,
    )
