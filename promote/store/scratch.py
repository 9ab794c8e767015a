"""A throw-away copy of a store, for dry runs: the real one keeps every byte."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.files import file_errors
from lessons_loop.promote.store.copied import CopiedStore
from lessons_loop.promote.store.lock import borrowed_lock
from lessons_loop.promote.store.places import FolderStore, LessonStore
from lessons_loop.promote.store.repair import gate_marker
from lessons_loop.promote.store.server_copy import copy_collections
from lessons_loop.promote.store.server_place import ServerStore


@contextmanager
def working_copy(
    store: FolderStore | ServerStore, domain: str, dry_run: bool
) -> Iterator[LessonStore]:
    """Return the store itself, for a dry run a copy of it; raise LockHeld, StoreError."""
    if not dry_run:
        yield store
        return
    with file_errors("the folder for temporary files"):
        scratch = tempfile.TemporaryDirectory(prefix="lessons-dry-run-")
    with scratch as folder:
        root = StorePaths(Path(folder) / "store")
        if isinstance(store, ServerStore):
            copy = _copy_server(store, root.state, domain)
        else:
            copy = _copy_folder(store, root)
        with _named_as(store, copy):
            yield copy


def _copy_folder(store: FolderStore, scratch: StorePaths) -> LessonStore:
    """Copy gate, staging and state under their locks."""
    paths = store.paths
    with borrowed_lock(paths.gate_lock), file_errors(paths.root):
        scratch.root.mkdir()
        _copy(paths.gate, scratch.gate)
        _copy(gate_marker(paths), gate_marker(scratch))
        _copy(store.state, scratch.state)
        _copy(paths.salt, scratch.salt)
    with borrowed_lock(paths.staging_lock), file_errors(paths.root):
        _copy(paths.staging, scratch.staging)
        _copy(paths.staging_marker, scratch.staging_marker)
    return FolderStore(scratch, scratch.state)


def _copy_server(store: ServerStore, state: Path, domain: str) -> LessonStore:
    """Copy the state under its lock, and what the server holds of the domain."""
    copy = CopiedStore(store.title, state)
    with borrowed_lock(store.state_lock), file_errors(store.state):
        state.parent.mkdir()
        _copy(store.state, state)
        copy_collections(store, copy, domain)
    return copy


@contextmanager
def _named_as(store: LessonStore, copy: LessonStore) -> Iterator[None]:
    """Let errors name the store that was copied: the copy is gone when they are read."""
    try:
        yield
    except LessonsError as error:
        text = str(error).replace(str(copy.state), str(store.state))
        error.args = (text.replace(copy.title, store.title),)
        raise


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=_left_out)
    elif source.exists():
        shutil.copy2(source, target)


def _left_out(folder: str, names: list[str]) -> set[str]:
    """Return what is not copied: what dry runs never read, and what is not ours.

    A volume's top folder holds things of its file system, such as root's `lost+found`.
    """
    return {"snapshots", "eval"} & {*names} | {n for n in names if _is_foreign(Path(folder, n))}


def _is_foreign(path: Path) -> bool:
    found = path.lstat()
    return found.st_uid != os.geteuid() and path.is_dir() and not os.access(path, os.R_OK | os.X_OK)
