"""Write files so that a crash leaves the old or the new content, never half of it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.store import first_line
from lessons_loop.filter.text import scrub


@contextmanager
def file_errors(what: Path | str) -> Iterator[None]:
    """Turn the block's OSError into one line of ours."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or first_line(error)
        raise StoreError(f"{what} cannot be used: {reason.lower()}") from None


def write_atomic(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace `path` by `content` in one step, on disk before it returns; raise StoreError.

    For the holder of the gate's lock: the draft's name is fixed, so that dead runs leave one.
    """
    with replacing(path, mode) as file:
        file.write(content)


@contextmanager
def replacing(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Yield the file that takes the place of `path` once the block is through, as above."""
    draft = path.with_name(f".{path.name}.tmp")
    with file_errors(path):
        try:
            with draft.open("wb") as file:
                os.fchmod(file.fileno(), mode)
                yield file
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def write_together(contents: Mapping[Path, bytes], mode: int = 0o600) -> None:
    """Write files of one folder, all on disk before it returns; raise StoreError.

    One fsync a file, after all are written, and one for the folder: the first fsync brings
    most of the others along.
    """
    drafts = {path: path.with_name(f".{path.name}.tmp") for path in contents}
    with file_errors(next(iter(contents)).parent if contents else ""):
        try:
            for path, draft in drafts.items():
                draft.write_bytes(contents[path])
                draft.chmod(mode)
            for path, draft in drafts.items():
                _sync_file(draft)
                draft.replace(path)
        except BaseException:
            for draft in drafts.values():
                draft.unlink(missing_ok=True)
            raise
        for folder in {path.parent for path in contents}:
            sync_folder(folder)


@contextmanager
def appending(path: Path) -> Iterator[Callable[[bytes], None]]:
    """Yield what adds a line to `path`, on disk before it returns; other writers wait meanwhile.

    A line that a crash left unfinished is ended first, so that only that one is lost. Raises
    StoreError.
    """
    with file_errors(path):
        new = not path.exists()
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield partial(_append, handle)
        finally:
            os.close(handle)
        if new:
            sync_folder(path.parent)


def _append(handle: int, line: bytes) -> None:
    size = os.fstat(handle).st_size
    torn = size and os.pread(handle, 1, size - 1) != b"\n"
    os.write(handle, (b"\n" if torn else b"") + line + b"\n")
    os.fsync(handle)


def _sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Bring a rename inside `folder` to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def private_folder(folder: Path) -> None:
    """Make a folder only its owner may enter; one of ours that is too open is closed.

    A volume's top folder in a cluster belongs to root and is shared through its group: what
    stands in it is closed all the same.
    """
    with file_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        found = folder.stat()
        if found.st_mode & 0o077 and found.st_uid == os.geteuid():
            folder.chmod(0o700)


def public_folder(folder: Path) -> None:
    """Make a folder everybody may read; an existing one keeps its mode."""
    with file_errors(folder):
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o755)


def canonical(content: object) -> bytes:
    """Return the one JSON spelling of `content` that is hashed; storable Unicode only."""
    clean = _scrubbed(content)
    return json.dumps(
        clean, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str
    ).encode()


def _scrubbed(content: object) -> object:
    if isinstance(content, str):
        return scrub(content)
    if isinstance(content, dict):
        return {scrub(str(name)): _scrubbed(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_scrubbed(value) for value in content]
    return content
