"""What forgetting does to files: payloads, snapshots, spool, what crashes left behind."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from lessons_loop.filter.attempts import attempts_file
from lessons_loop.filter.rating_register import RatingRegister
from lessons_loop.filter.unfinished import Unfinished
from lessons_loop.promote.files import file_errors, sync_folder
from lessons_loop.promote.forget.subject import holds
from lessons_loop.promote.state import Located
from lessons_loop.promote.store.places import FolderStore

WRECKAGE = (
    *("staging.damaged-*", "gate.damaged-*", "staging.rows", "staging.new", "gate.new"),
    *("staging.copy-*", "staging.compact", "gate.compact"),
)
"""Whole Chroma folders a repair moved aside, and drafts of one: texts in them cannot be found."""


def delete_payloads(state: Path, digests: Iterable[str]) -> int:
    """Delete payload files by their sha256; return how many were there. Raises StoreError."""
    folder = state / "payloads"
    return _delete(folder / f"{Path(digest).name}.json" for digest in digests)


def spool_files(place: Located, needles: set[str]) -> list[Path]:
    """Return files of the plugin's spool that name one of the references; raise StoreError."""
    if not isinstance(place, FolderStore):  # it lies where the plugin runs
        return []
    spool = place.paths.spool
    return _naming([*spool.glob("*.json"), *spool.glob(".*.tmp"), *spool.glob("bad/*")], needles)


def forget_thumbs(place: Located, needles: set[str]) -> int:
    """Erase what the rating plugin noted of them; return how many thumbs; raise StoreError."""
    if not isinstance(place, FolderStore):  # it lies where the plugin runs
        return 0
    return RatingRegister(place.paths.ratings, lambda _: None).forget(needles)


def forget_under_way(place: Located, needles: set[str]) -> int:
    """Erase which answers of theirs the plugin still means to learn from; raise StoreError."""
    if not isinstance(place, FolderStore):  # it lies where the plugin runs, for a day at most
        return 0
    return Unfinished(attempts_file(place.paths.root), "").forget(needles)


def loose_files(place: Located, needles: set[str]) -> list[Path]:
    """Return files beside the store that name one of the references; raise StoreError.

    Payloads no ledger line names any more, torn lines, drafts of runs that died.
    """
    state = place.state
    patterns = ["payloads/*.json", "payloads/.*.tmp", "ledger.torn-*", "journal.*", ".*.tmp"]
    return _naming([file for pattern in patterns for file in state.glob(pattern)], needles)


def copies_aside(place: Located, needles: set[str]) -> list[Path]:
    """Return files of copied rows nobody can read that name a reference; each goes whole.

    Raises StoreError.
    """
    folder = place.state / "unreadable"
    return _naming([*folder.glob("*/*.jsonl"), *folder.glob("*/.*.tmp")], needles)


def _naming(files: Iterable[Path], needles: set[str]) -> list[Path]:
    with file_errors("the files of the store"):
        return sorted(file for file in files if file.is_file() and _names(file, needles))


def _names(file: Path, needles: set[str]) -> bool:
    try:
        return holds(file.read_bytes(), needles)
    except FileNotFoundError:  # the plugin moved it on
        return False


def wreckage(place: Located) -> list[Path]:
    """Return what crashes and repairs left beside the store's folders and in the state."""
    registers = [*(place.state / "uses").glob("*.damaged-*"), *(place.state / "uses").glob(".*")]
    if not isinstance(place, FolderStore):
        return sorted(registers)
    folders = [found for pattern in WRECKAGE for found in place.paths.root.glob(pattern)]
    return sorted([*folders, *registers])


def remove(paths: Iterable[Path]) -> int:
    """Remove files and folders; return how many were there. Raises StoreError."""
    folders = [path for path in paths if path.is_dir()]
    for folder in folders:
        with file_errors(folder):
            shutil.rmtree(folder)
    return len(folders) + _delete(path for path in paths if path not in folders)


def _delete(files: Iterator[Path] | Iterable[Path]) -> int:
    gone = 0
    touched: set[Path] = set()
    for file in files:
        with file_errors(file):
            if file.exists():
                file.unlink(missing_ok=True)
                gone += 1
                touched.add(file.parent)
    for folder in touched:
        sync_folder(folder)
    return gone
