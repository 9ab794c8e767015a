"""Make a Chroma folder hold its rows and nothing of those that were deleted.

Chroma keeps deleted texts in free pages, in its log and, as leftovers of the writer's
memory, in index files. So the rows are copied into a new folder by processes of their
own, compared, and the database is exchanged in one rename.

Covered: a crash at any moment leaves the old or the new database whole.
Not covered: a server's files (`chroma vacuum` there), blocks the file system freed.
"""

from __future__ import annotations

import json
import os
import shutil
from itertools import zip_longest
from pathlib import Path

import numpy as np

from lessons_loop.filter.errors import StoreDamaged, StoreError
from lessons_loop.filter.store import first_line, refuse_locked_database
from lessons_loop.promote.files import file_errors, private_folder, sync_folder
from lessons_loop.promote.store.child import ORPHAN_SECONDS, run_child
from lessons_loop.promote.store.chroma import DATABASE
from lessons_loop.promote.store.rows import unpack

CHILD_SECONDS = 600.0


def compact(folder: Path) -> bool:
    """Copy a folder's rows and drop the old files; the caller holds its lock.

    Return False where there is none. Raises StoreError, StoreDamaged with nothing changed.
    """
    database = folder / DATABASE
    if not database.exists():
        return False
    refuse_locked_database(database, ORPHAN_SECONDS)
    scratch = folder.with_name(f"{folder.name}.compact")
    with file_errors(folder):
        shutil.rmtree(scratch, ignore_errors=True)
        private_folder(scratch)
        try:
            _copy(folder, scratch)
            _exchange(scratch / "new", folder)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return True


def _copy(folder: Path, scratch: Path) -> None:
    rows, again = scratch / "rows.jsonl", scratch / "again.jsonl"
    _child("dump", folder, rows)
    _child("fill", scratch / "new", rows)
    _child("dump", scratch / "new", again)
    if not _agree(rows, again):
        raise StoreDamaged(f"{folder}: the copy differs from it: nothing was exchanged")


def _agree(one: Path, other: Path) -> bool:
    with one.open(encoding="utf-8") as left, other.open(encoding="utf-8") as right:
        return all(_same_row(*pair) for pair in zip_longest(left, right, fillvalue="{}"))


def _same_row(one: str, other: str) -> bool:
    left, right = json.loads(one), json.loads(other)
    mine, theirs = left.pop("vector", None), right.pop("vector", None)
    if left != right or (mine is None) is not (theirs is None):
        return False
    if mine is None or mine == theirs:
        return True
    old, new = unpack(mine), unpack(theirs)  # an index gives numbers back a last digit off
    return old.shape == new.shape and np.allclose(old, new, atol=1e-5)


def _exchange(fresh: Path, folder: Path) -> None:
    """Move the new index folders in, exchange the database, drop the old index folders."""
    mine = {entry.name for entry in fresh.iterdir() if entry.is_dir()}
    for name in mine:
        os.replace(fresh / name, folder / name)
    for suffix in ("-wal", "-shm", "-journal"):
        (folder / f"{DATABASE}{suffix}").unlink(missing_ok=True)
    os.replace(fresh / DATABASE, folder / DATABASE)
    sync_folder(folder)
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name not in mine:
            shutil.rmtree(entry, ignore_errors=True)


def _child(verb: str, folder: Path, file: Path) -> None:
    try:
        problem = run_child("compact_child", verb, (folder, file), file.parent, CHILD_SECONDS)
    except OSError as error:
        problem = first_line(error)
    if problem:
        raise StoreError(f"{folder} cannot be copied: {problem}")
