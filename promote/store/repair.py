"""Chroma folders after a crash: read in a child process, because a torn index kills its opener.

A crash inside a session leaves a marker, `staging.open` or `gate.open`, and the folder is
left alone until it proves sound. Nothing is deleted: what is replaced is moved aside.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from lessons_loop.filter.errors import StoreDamaged, StoreError
from lessons_loop.filter.models import Metadata, Record
from lessons_loop.filter.store import (
    APPEND_BATCH,
    StorePaths,
    append_records,
    file_lock,
    first_line,
    open_embedded,
)
from lessons_loop.promote.clock import stamp, utc_now
from lessons_loop.promote.files import file_errors
from lessons_loop.promote.store.child import run_child
from lessons_loop.promote.store.chroma import DATABASE
from lessons_loop.promote.store.lock import gate_lock
from lessons_loop.promote.store.staging_made import make_staging

CHILD_SECONDS = 60.0
"""A torn index may also hang its reader for ever."""


class RepairReport(NamedTuple):
    """What `repair_staging` found and did."""

    outcome: str
    """sound | rebuilt | emptied | damaged (on a server, where nothing is rebuilt)"""
    rows: int
    """Rows staging holds now that came from the damaged folder."""
    aside: Path | None
    """Where the damaged folder stands now."""

    what: str = "staging"
    note: str = ""
    """What was found on a server."""

    @property
    def line(self) -> str:
        """One line for people."""
        if self.note or self.aside is None:
            return self.note or f"{self.what} is sound"
        if self.what == "curated":
            return (
                f"curated keeps its texts, its vectors are lost: run `lessons reembed`; "
                f"the old folder is {self.aside}"
            )
        if self.outcome == "rebuilt":
            return f"staging was rebuilt with {self.rows} rows; the old folder is {self.aside}"
        return f"staging could not be read and starts anew; the old folder is {self.aside}"


def repair_staging(
    paths: StorePaths,
    *,
    wait_seconds: float = 10.0,
    child_seconds: float = CHILD_SECONDS,
    now: Callable[[], datetime] = utc_now,
) -> RepairReport:
    """Check staging and, where it cannot be used, fill a new folder from its rows.

    Raises StoreLocked while somebody uses it.
    """
    with file_errors(paths.staging), file_lock(paths.staging_lock, wait_seconds):
        _finish_staging_swap(paths)
        if not paths.staging.is_dir() or not _child("check", paths.staging, child_seconds):
            report = RepairReport("sound", 0, None)
        else:
            paths.staging_marker.touch()  # killed half way: no plugin fills a new folder meanwhile
            report = _rebuild(paths, child_seconds, now())
        paths.staging_marker.unlink(missing_ok=True)
    return report


def clear_sound_marker(paths: StorePaths, wait_seconds: float) -> None:
    """Remove the crash marker when the folder proves sound; raise StoreDamaged when not."""
    if not (paths.staging_marker.exists() or _staging_draft(paths).exists()):
        return
    with file_errors(paths.staging), file_lock(paths.staging_lock, wait_seconds):
        _finish_staging_swap(paths)
        if not paths.staging_marker.exists():  # it was only an open session
            return
        if problem := _child("check", paths.staging, CHILD_SECONDS):
            raise StoreDamaged(f"{paths.staging} is damaged ({problem}): run `lessons repair`")
        paths.staging_marker.unlink(missing_ok=True)


def gate_marker(paths: StorePaths) -> Path:
    """Return the crash marker of the gate's own folder."""
    return paths.root / "gate.open"


def refuse_torn_gate(paths: StorePaths, seconds: float = CHILD_SECONDS) -> None:
    """After a crash, raise StoreDamaged unless the gate's folder reads; needs the gate's lock."""
    with file_errors(paths.gate):
        _finish_gate_swap(paths)
    if not gate_marker(paths).exists():
        return
    if problem := _child("read", paths.gate, seconds):
        raise StoreDamaged(f"{paths.gate} is damaged ({problem}): run `lessons repair`")


def repair_gate(
    paths: StorePaths,
    *,
    child_seconds: float = CHILD_SECONDS,
    now: Callable[[], datetime] = utc_now,
) -> RepairReport:
    """Check the gate's own folder; where its index is torn, keep the texts without it.

    The vectors are gone then: `lessons reembed` makes them anew. Raises LockHeld.
    """
    with file_errors(paths.gate):
        if not paths.gate.is_dir() and not _gate_draft(paths).is_dir():
            return RepairReport("sound", 0, None, "curated")
        with gate_lock(paths.gate_lock, now):
            _finish_gate_swap(paths)
            if not _child("read", paths.gate, child_seconds):
                gate_marker(paths).unlink(missing_ok=True)
                return RepairReport("sound", 0, None, "curated")
            aside = _keep_texts_alone(paths, now())
            gate_marker(paths).unlink(missing_ok=True)
    return RepairReport("rebuilt", 0, aside, "curated")


def _keep_texts_alone(paths: StorePaths, moment: datetime) -> Path:
    """Put the database without its index in the gate's place; return where the old folder is."""
    aside, fresh = paths.root / f"gate.damaged-{stamp(moment)}", _gate_draft(paths)
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    shutil.copy2(paths.gate / DATABASE, fresh / DATABASE)
    paths.gate.rename(aside)
    fresh.rename(paths.gate)
    return aside


def _gate_draft(paths: StorePaths) -> Path:
    return paths.root / "gate.new"


def _finish_gate_swap(paths: StorePaths) -> None:
    _finish_swap(_gate_draft(paths), paths.gate)


def _finish_swap(draft: Path, folder: Path) -> None:
    """Complete a repair that died between its two renames; the folder may be made anew since."""
    if (draft / DATABASE).exists() and not (folder / DATABASE).exists():
        draft.rename(folder)


def _rebuild(paths: StorePaths, seconds: float, moment: datetime) -> RepairReport:
    aside = paths.root / f"staging.damaged-{stamp(moment)}"
    fresh, dump = _staging_draft(paths), _dumped(paths)
    for left in (fresh, *paths.root.glob("staging.copy-*")):  # of repairs that were killed
        shutil.rmtree(left, ignore_errors=True)
    problem = _child("dump", paths.staging, seconds, dump)
    rows = 0 if problem else _fill(fresh, dump)
    dump.unlink(missing_ok=True)
    paths.staging.rename(aside)
    if problem:
        return RepairReport("emptied", 0, aside)
    fresh.rename(paths.staging)
    return RepairReport("rebuilt", rows, aside)


def _staging_draft(paths: StorePaths) -> Path:
    return paths.root / "staging.new"


def _dumped(paths: StorePaths) -> Path:
    """Return the file of rows, which goes once the draft holds them all."""
    return paths.root / "staging.rows"


def _finish_staging_swap(paths: StorePaths) -> None:
    if not _dumped(paths).exists():  # else the draft is half filled
        _finish_swap(_staging_draft(paths), paths.staging)


def _fill(folder: Path, dump: Path) -> int:
    made: dict[str, Metadata | None] = {}
    batches: dict[str, list[Record]] = {}
    with dump.open(encoding="utf-8") as lines:
        for line in lines:
            name, *fields = json.loads(line)
            if name not in made:
                (made[name],) = fields
            else:
                batches.setdefault(name, []).append(Record(*fields))
    folder.mkdir(mode=0o700)
    client = open_embedded(folder)
    try:
        for name, metadata in made.items():
            make_staging(client, name, metadata)
            records = batches.get(name, [])
            for start in range(0, len(records), APPEND_BATCH):
                append_records(client, name, records[start : start + APPEND_BATCH])
    finally:
        client.close()  # type: ignore[attr-defined]
    return sum(len(records) for records in batches.values())


def _child(verb: str, folder: Path, seconds: float, *more: Path) -> str:
    """Run one verb of `store_child`; return "" or what went wrong."""
    try:
        return run_child("store_child", verb, (folder, *more), folder.parent, seconds)
    except OSError as error:
        raise StoreError(f"staging cannot be checked: {first_line(error)}") from None
