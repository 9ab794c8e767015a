"""The data folder of a local run: secrets made once and kept, notes from start to start."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from lessons_loop.deploy.processes import StartError
from lessons_loop.filter.store import StorePaths, opened_lock

ENDING_SECONDS = 20.0


@dataclass(frozen=True)
class Home:
    """Where one local run keeps everything; deleting the folder starts anew."""

    root: Path
    kept: tuple[int, ...] = ()
    """The open lock, for what is started here: it outlives a run that was killed."""

    @property
    def store(self) -> StorePaths:
        """The lesson store, under Open WebUI's data folder."""
        return StorePaths(self.root / "lessons")

    @property
    def database(self) -> Path:
        """The demo database behind the run_sql tool."""
        return self.root / "demo.sqlite3"

    @property
    def requests_log(self) -> Path:
        """What the practice model was asked, one JSON object a line."""
        return self.root / "practice-model.jsonl"

    @property
    def password_file(self) -> Path:
        """The admin's password, readable by the owner only."""
        return self.root / "admin-password"

    @property
    def secret_file(self) -> Path:
        """Key of Open WebUI's sign-in tokens, readable by the owner only."""
        return self.root / "secret-key"

    def notes(self) -> dict[str, Any]:
        """Return what the last start noted."""
        try:
            found = json.loads((self.root / "local.json").read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def note(self, **values: object) -> None:
        """Add to the notes."""
        draft = self.root / "local.json.tmp"
        draft.write_text(json.dumps(self.notes() | values, indent=1), "utf-8")
        draft.replace(self.root / "local.json")


def kept_secret(file: Path, length: int) -> str:
    """Return the secret in `file`, made on first use; raise StartError when it is unusable."""
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        found = file.read_text("utf-8").strip()
        if not found:
            raise StartError(f"{file} is empty: delete it to have a new one made") from None
        return found
    with os.fdopen(handle, "w") as out:
        out.write(secrets.token_urlsafe(length) + "\n")
    return file.read_text("utf-8").strip()


@contextmanager
def held_home(home: Home) -> Iterator[Home]:
    """Make the folder and keep other local runs out of it; raise StartError."""
    with ExitStack() as stack:
        try:
            home.root.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context(opened_lock(home.root / "up.lock"))
            _take(lock, home)
            home.note(pid=os.getpid())
        except OSError as error:
            raise StartError(f"{home.root} cannot be used: {error.strerror}") from None
        yield replace(home, kept=(lock.fileno(),))


def _take(lock: IO[str], home: Home) -> None:
    """Take the lock; what a killed run started has a moment to end. Raises StartError."""
    deadline = time.monotonic() + (0 if _is_alive(home.notes().get("pid")) else ENDING_SECONDS)
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise StartError(in_use(home)) from None
        time.sleep(0.1)


def _is_alive(pid: object) -> bool:
    try:
        os.kill(pid if isinstance(pid, int) else 0, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def in_use(home: Home) -> str:
    """Say who holds the folder and what to do."""
    notes = home.notes()
    if _is_alive(notes.get("pid")):
        holder = f"process {notes.get('pid')}"
    else:
        holder = f"what the killed process {notes.get('pid')} started"
    return (
        f"{home.root} is in use by {holder} ({notes.get('url')}):"
        " stop it first, or choose another --data-dir"
    )
