"""A throw-away copy of a store, for dry runs: the real one keeps every byte."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.files import file_errors
from lessons_loop.promote.lock import borrowed_lock
from lessons_loop.promote.repair import gate_marker


class Place(NamedTuple):
    """A store and the state directory that goes with it."""

    paths: StorePaths
    state: Path


@contextmanager
def scratch_copy(place: Place) -> Iterator[Place]:
    """Copy gate, staging and state under their locks; raise LockHeld, StoreError."""
    with file_errors("the folder for temporary files"):
        scratch = tempfile.TemporaryDirectory(prefix="lessons-dry-run-")
    with scratch as folder:
        copy = Place(StorePaths(Path(folder) / "store"), Path(folder) / "store" / "state")
        with borrowed_lock(place.paths.gate_lock), file_errors(place.paths.root):
            copy.paths.root.mkdir()
            _copy(place.paths.gate, copy.paths.gate)
            _copy(gate_marker(place.paths), gate_marker(copy.paths))
            _copy(place.state, copy.state)
        with borrowed_lock(place.paths.staging_lock), file_errors(place.paths.root):
            _copy(place.paths.staging, copy.paths.staging)
            _copy(place.paths.staging_marker, copy.paths.staging_marker)
        with _named_as(place, copy):
            yield copy


@contextmanager
def _named_as(place: Place, copy: Place) -> Iterator[None]:
    """Let errors name the store that was copied: the copy is gone when they are read."""
    try:
        yield
    except LessonsError as error:
        text = str(error).replace(str(copy.state), str(place.state))
        error.args = (text.replace(str(copy.paths.root), str(place.paths.root)),)
        raise


@contextmanager
def working_copy(place: Place, dry_run: bool) -> Iterator[Place]:
    """Return the place itself, for a dry run a copy of it."""
    if not dry_run:
        yield place
        return
    with scratch_copy(place) as copy:
        yield copy


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("snapshots"))
    elif source.exists():
        shutil.copy2(source, target)
