"""Tombstones: whose traces were removed, kept as hashes, so that no backup brings them back.

    state/forgotten.jsonl   one line per step of `lessons forget`, appended, never rewritten

A line names nobody: it holds the sha256 of a reference that is itself an HMAC. Restore,
seeds, imports, folding and every run ask it.

Covered: rows of a forgotten user up to the moment of forgetting (who goes on chatting is
learned from again), rows of a forgotten chat or message whenever they come.
Not covered: what Open WebUI itself keeps of the chat, copies of this folder elsewhere.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO, Protocol, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from lessons_loop.filter.models import Candidate, Status
from lessons_loop.filter.text import digest
from lessons_loop.promote.files import file_errors, private_folder, sync_folder
from lessons_loop.promote.records import Archived

FILE = "forgotten.jsonl"
USER, CHAT = "user", "chat"


class Tombstone(BaseModel):
    """One step of forgetting one user or chat."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    what: str
    """`user` or `chat`."""
    who: str
    """`mark` of the reference."""
    at: str
    """ISO 8601, UTC; a user's rows up to here are covered."""
    messages: tuple[str, ...] = ()
    """Marks of message references: whose rating comes late is covered by them."""
    keys: dict[str, int] = {}
    """Lessons that rested on nothing else, by the ledger's last line then: decided on anew
    since, they may come back."""
    payloads: tuple[str, ...] = ()
    """sha256 of payload files that were deleted."""
    archived: tuple[str, ...] = ()
    """`Archived.id` of proposals nothing was left of."""
    finished: bool = False
    """True on the last line: nothing is left to do."""


class Traced(Protocol):
    """A row that says whose it is: Usage, Rating, Use."""

    @property
    def message_ref(self) -> str:
        """Hash of the answer's message id."""

    @property
    def user_ref(self) -> str:
        """HMAC of the user id."""

    @property
    def at(self) -> str:
        """ISO 8601, UTC."""


class Forgotten:
    """All tombstones of a state directory."""

    def __init__(self, stones: Iterable[Tombstone] = ()) -> None:
        self.stones = tuple(stones)
        self.users: dict[str, str] = {}
        """Mark to the last moment covered."""
        self.chats: set[str] = set()
        self.messages: set[str] = set()
        self.keys: dict[str, int] = {}
        self.payloads: set[str] = set()
        """sha256 of payload files `lessons forget` deleted: forgotten, not missing."""
        self.archived: set[str] = set()
        for stone in self.stones:
            self._take(stone)

    @classmethod
    def load(cls, state: Path) -> Self:
        """Read the tombstones; without a file nobody is forgotten. Raises StoreError."""
        path = state / FILE
        if not path.exists():
            return cls()
        with file_errors(path):
            lines = path.read_bytes().splitlines()
        return cls(stone for line in lines if (stone := _parsed(line)))

    def _take(self, stone: Tombstone) -> None:
        if stone.what == USER:
            self.users[stone.who] = max(stone.at, self.users.get(stone.who, ""))
        else:
            self.chats.add(stone.who)
        self.messages.update(stone.messages)
        self.payloads.update(stone.payloads)
        self.archived.update(stone.archived)
        for key, line in stone.keys.items():
            self.keys[key] = max(line, self.keys.get(key, 0))

    def __bool__(self) -> bool:
        """Say whether anything was ever forgotten."""
        return bool(self.stones)

    def covers_candidate(self, found: Candidate) -> bool:
        """Say whether a candidate belongs to whom was forgotten."""
        return self._covers(found.user_ref, found.chat_ref, found.message_ref, found.at)

    def covers_event(self, found: Traced) -> bool:
        """Say whether a Usage, Rating or Use belongs to whom was forgotten."""
        chat = str(getattr(found, "chat_ref", ""))  # a rating knows its message only
        return self._covers(found.user_ref, chat, found.message_ref, found.at)

    def covers_row(self, row: Mapping[str, object]) -> bool:
        """Say the same of a row's plain fields, also where it is no valid row."""
        user, chat, message, at = (
            str(row.get(name, "")) for name in ("user_ref", "chat_ref", "message_ref", "at")
        )
        return self._covers(user, chat, message, at)

    def covers_key(self, key: str, verdict_ref: int = 0) -> bool:
        """Say whether a lesson rested on the forgotten alone, and nobody decided on it since.

        `verdict_ref`: the ledger line of the row's last decision.
        """
        return key in self.keys and verdict_ref <= self.keys[key]

    def cleaned(self, row: Archived) -> Archived:
        """Return an archived row without the sightings of whom was forgotten."""
        seen = [found for found in row.all_sightings if not self.covers_candidate(found)]
        if len(seen) == len(row.all_sightings):
            return row
        first, rest = (seen[0], tuple(seen[1:])) if seen else (None, ())
        return row.model_copy(update={"candidate": first, "sightings": rest})

    def drops(self, row: Archived) -> bool:
        """Say whether an archived proposal came from the forgotten alone: it goes whole."""
        mine = row.id in self.archived or (row.status is Status.HELD and bool(row.all_sightings))
        return mine and row.curated is None and not self.cleaned(row).all_sightings

    def _covers(self, user: str, chat: str, message: str, at: str) -> bool:
        if not self.stones:
            return False
        return (
            (bool(user) and at <= self.users.get(mark(user), ""))
            or (bool(chat) and mark(chat) in self.chats)
            or mark(message) in self.messages
        )


def mark(reference: str) -> str:
    """Return what a tombstone knows of a reference: it cannot be found by searching for it."""
    return digest("forgotten", reference)


def append_tombstone(state: Path, stone: Tombstone) -> None:
    """Add a line, on disk before it returns; for the holder of the gate's lock. StoreError."""
    path = state / FILE
    private_folder(state)
    with file_errors(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "rb+") as file:
            whole = not file.seek(0, os.SEEK_END) or _last_byte(file) == b"\n"
            line = json.dumps(stone.model_dump(mode="json")).encode() + b"\n"
            file.write(line if whole else b"\n" + line)  # after a crash in the middle of a line
            file.flush()
            os.fsync(file.fileno())
        sync_folder(state)


def unreadable_tombstones(state: Path) -> list[int]:
    """Return the numbers of lines that name nobody any more; half a last line is a crash's."""
    path = state / FILE
    if not path.exists():
        return []
    with file_errors(path):
        lines = path.read_bytes().split(b"\n")[:-1]
    return [n for n, line in enumerate(lines, 1) if line.strip() and _parsed(line) is None]


def _last_byte(file: BinaryIO) -> bytes:
    file.seek(-1, os.SEEK_END)
    return file.read(1)


def _parsed(line: bytes) -> Tombstone | None:
    try:
        return Tombstone.model_validate_json(line)
    except ValidationError:
        return None
