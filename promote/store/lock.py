"""The gate's lock: one gate at a time on a store, and who it is.

The lock is the kernel's (flock on `gate.lock`), so it ends with its holder however
that dies; the note inside only names the holder and counts for nothing alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

from lessons_loop.promote.clock import iso, utc_now
from lessons_loop.promote.errors import LockHeld
from lessons_loop.promote.files import file_errors

NOTE_LIMIT = 4096
COMMAND_LIMIT = 120


@contextmanager
def gate_lock(path: Path, now: Callable[[], datetime] = utc_now) -> Iterator[None]:
    """Hold the gate's lock; raise LockHeld at once, naming the holder."""
    with file_errors(path):
        handle = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+")
    with handle:
        _take(handle, path)
        with file_errors(path):
            _write_note(handle, now())
        try:
            yield
        finally:
            handle.seek(0)
            handle.truncate()


@contextmanager
def borrowed_lock(path: Path) -> Iterator[None]:
    """Hold a lock without writing a byte, for a dry run; no file, no lock."""
    if not path.exists():
        yield
        return
    with file_errors(path):
        handle = path.open()
    with handle:
        _take(handle, path)
        yield


def is_held(path: Path) -> bool:
    """Say whether somebody holds a lock file; a shared lock is taken for an instant."""
    try:
        with path.open() as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # not there, or another user's
        return False
    return False


def _take(handle: IO[str], path: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LockHeld(f"{path} is held by {holder(path)}: wait for it to end") from None


def _write_note(handle: IO[str], moment: datetime) -> None:
    note = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": iso(moment),
        "command": command_name(sys.argv),
    }
    handle.seek(0)
    handle.truncate()
    handle.write(json.dumps(note))
    handle.flush()


def command_name(argv: list[str]) -> str:
    """Return program and verb only: later arguments may carry a key."""
    words = [Path(argv[0]).name if argv else ""]
    for word in argv[1:2]:
        if not word.startswith("-"):
            words.append(word)
    return shlex.join(words)[:COMMAND_LIMIT]


def holder(path: Path) -> str:
    """Describe who wrote the note in a lock file."""
    try:
        with path.open() as file:
            note = json.loads(file.read(NOTE_LIMIT))
        return "`{command}` (pid {pid} on {host}, since {since})".format_map(note)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "another program"
