"""Answers to be learned from that nobody is through with: what a dead worker leaves to others.

One row per answer in the register of attempts, ids only, no word of a chat; made before anything
slow, gone when the answer was learned from or refused. A worker gives a sign of life for its
rows; where none is seen for a while, exactly one other takes them up.

Covered: a killed worker, a restart, a replaced plugin, a queue that runs over, over all workers
and pods that share the store's folder. Whether a worker lives is told by its signs and the
observer's own monotonic clock, never by the time of day or a process id. The time of day only
drops rows a day off: a clock set wrong by more loses what was under way.
Not covered: pods with folders of their own; plain API chats, which nobody can read again; a
worker frozen for longer than LIFE_SECONDS while it waits for the model: another asks too, and
the frozen one drops what it got.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from lessons_loop.filter.attempts import ATTEMPT_HINT, ATTEMPT_TABLES
from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.register import REGISTER_BUSY_SECONDS, writing_register
from lessons_loop.filter.store import first_line
from lessons_loop.filter.text import digest

LIFE_SECONDS = 45.0
"""How long a worker may give no sign before others take up its answers."""
BEAT_SECONDS = 10.0
LOOK_SHARE = 2 / 3
"""Of LIFE_SECONDS: one sign and a pause this long between two looks stay below it."""
UNFINISHED_SECONDS = 86_400.0
"""After a day nobody learns from an answer any more."""
UNFINISHED_KEPT = 20_000
NOBODY = ""
"""Owner of answers that stood back: whoever has room takes them up at once."""
TAKES_MOST = 3
"""Times an answer is taken up at most, asked about or not: what it holds may kill workers."""


class UnfinishedAnswer(NamedTuple):
    """What can be read again of an answer, and which lessons it was given."""

    message: str
    chat: str
    plugin: str
    """Id of the function in Open WebUI."""
    domain: str
    """Where its lessons were to go."""
    finish: str
    """Finish reason: Open WebUI does not keep it."""
    recalled: str
    """Keys of the lessons used, by domain: JSON."""
    shown: str
    """Keys of all lessons in the block: JSON."""
    user_ref: str
    chat_ref: str
    at: str
    """When it was finished: ISO 8601, UTC."""

    def keys_by_domain(self) -> Mapping[str, Sequence[str]]:
        """Return the keys of the lessons used."""
        return dict(json.loads(self.recalled))

    def keys_shown(self) -> tuple[str, ...]:
        """Return the keys of all lessons in the block."""
        return tuple(json.loads(self.shown))


class Taken(NamedTuple):
    """What one look for unfinished answers gave."""

    answers: tuple[UnfinishedAnswer, ...]
    counts: Mapping[str, int]
    """Answers given up, by counter."""


class Signs:
    """When a sign of life of each worker was last seen to change, on this worker's own clock."""

    def __init__(self, seconds: float = LIFE_SECONDS) -> None:
        self.seconds = seconds
        self._last: dict[str, tuple[int, float]] = {}
        self._looked = 0.0

    def dead(self, beats: Mapping[str, int], now: float) -> dict[str, int]:
        """Return the workers whose sign did not change for long enough, with that sign.

        After a long time without a look (frozen, register locked) all of them start anew: what
        kept this worker from looking may have kept them from writing.
        """
        known = self._last if now - self._looked <= self.seconds * LOOK_SHARE else {}
        self._looked = now
        self._last = {
            owner: known[owner] if owner in known and known[owner][0] == beat else (beat, now)
            for owner, beat in beats.items()
        }
        return {o: beat for o, (beat, seen) in self._last.items() if now - seen >= self.seconds}


class Unfinished:
    """The rows of one store's register, as one worker sees them; blocking, raises StoreError."""

    def __init__(self, path: Path, owner: str, signs: Signs | None = None) -> None:
        self.path, self.owner = path, owner
        self.signs = signs or Signs()
        self._beat = 0

    def note(self, answers: Sequence[UnfinishedAnswer], now: float | None = None) -> set[str]:
        """Make rows of this worker's; return the messages nobody had noted or tried before."""
        since = time.time() if now is None else now
        with self._writing() as found:
            mine = {a.message for a in answers if self._note(found, a, since)}
            found.execute(
                "delete from unfinished where message in "
                "(select message from unfinished order by since desc limit -1 offset ?)",
                (UNFINISHED_KEPT,),
            )
        return mine

    def _note(self, found: sqlite3.Connection, answer: UnfinishedAnswer, since: float) -> bool:
        query = "select shown from unfinished where message = ?"
        if before := found.execute(query, (answer.message,)).fetchone():
            shown = [*json.loads(before[0]), *answer.keys_shown()]  # more where it was continued
            query = "update unfinished set shown = ? where message = ?"
            found.execute(query, (json.dumps([*dict.fromkeys(shown)]), answer.message))
            return False
        tried = "select 1 from attempts where message = ?"
        if found.execute(tried, (digest("attempt", answer.message),)).fetchone():
            return False
        marks = ", ".join("?" * (len(answer) + 5))
        values = (*answer, since, self.owner, self._beat, 0, 0)
        found.execute(f"insert into unfinished values ({marks})", values)
        return True

    def holds(self, message: str) -> bool:
        """Say whether an answer is still this worker's: not taken by another, not forgotten."""
        with self._writing() as found:
            query = "select 1 from unfinished where message = ? and owner = ?"
            return found.execute(query, (message, self.owner)).fetchone() is not None

    def close(self, messages: Iterable[str]) -> None:
        """Remove answers of this worker's."""
        with self._writing() as found:
            self._close(found, messages)

    def give_sign(self, stood_back: Iterable[str] = (), through: Iterable[str] = ()) -> None:
        """Give a sign of life; leave answers to whoever has room, remove those that are through."""
        self._beat += 1
        with self._writing() as found:
            self._close(found, through)
            for message in stood_back:
                query = "update unfinished set owner = ? where message = ? and owner = ?"
                found.execute(query, (NOBODY, message, self.owner))
            query = "update unfinished set beat = ? where owner = ?"
            found.execute(query, (self._beat, self.owner))

    def take(self, plugin: str, most: int, now: float | None = None) -> Taken:
        """Take up answers that stood back or whose worker is dead; drop the old ones.

        A look without a lock comes first: mostly there is nothing.
        """
        beats = self._beats()
        dead = self.signs.dead(beats, time.monotonic())
        if NOBODY in beats:
            dead[NOBODY] = beats[NOBODY]
        if not dead:
            return Taken((), {})
        wall = time.time() if now is None else now
        with self._writing() as found:
            old = "delete from unfinished where abs(since - ?) > ?"
            gone = found.execute(old, (wall, UNFINISHED_SECONDS)).rowcount
            rows = list(self._free(found, dead, plugin))[:most]
            kept = [row for row in rows if self._claim(found, row)]
        counts = Counter({"lost:old": gone, "lost:given-up": len(rows) - len(kept)})
        return Taken(tuple(UnfinishedAnswer(*row[:10]) for row in kept), +counts)

    def forget(self, references: Iterable[str]) -> int:
        """Erase the rows of these users and chats; return how many; nothing is made."""
        if not self.path.exists():
            return 0
        query = "delete from unfinished where ? in (user_ref, chat_ref)"
        with self._writing() as found:
            return sum(found.execute(query, (name,)).rowcount for name in references if name)

    def _close(self, found: sqlite3.Connection, messages: Iterable[str]) -> None:
        for message in messages:
            query = "delete from unfinished where message = ? and owner = ?"
            found.execute(query, (message, self.owner))

    def _beats(self) -> dict[str, int]:
        """Return the last sign of each other owner that has rows."""
        if not self.path.exists():
            return {}
        query = "select owner, max(beat) from unfinished where owner != ? group by owner"
        with reading_register(self.path) as found:
            try:
                return dict(found.execute(query, (self.owner,)).fetchall())
            except sqlite3.OperationalError as error:
                if "no such table" in str(error):  # made by an earlier release
                    return {}
                raise

    def _free(
        self, found: sqlite3.Connection, dead: Mapping[str, int], plugin: str
    ) -> Iterator[tuple[str, ...]]:
        query = "select * from unfinished where owner = ? and beat <= ? and plugin = ?"
        for owner, beat in dead.items():
            yield from found.execute(f"{query} order by since", (owner, beat, plugin))

    def _claim(self, found: sqlite3.Connection, row: tuple[str, ...]) -> bool:
        """Make a free row this worker's, or remove one that was taken too often."""
        message, owner, takes = row[0], row[11], int(row[13])
        if owner and takes >= TAKES_MOST:
            found.execute("delete from unfinished where message = ?", (message,))
            return False
        query = "update unfinished set owner = ?, beat = ?, takes = ? where message = ?"
        taken = takes + 1 if owner else takes
        found.execute(query, (self.owner, self._beat, taken, message))
        return True

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with writing_register(self.path, ATTEMPT_TABLES, ATTEMPT_HINT) as found:
            found.execute("pragma secure_delete = on")
            yield found


@contextmanager
def reading_register(path: Path) -> Iterator[sqlite3.Connection]:
    """Read a register that exists, without holding it; raise StoreError.

    Not read-only: what a process killed in a write left half done has to be rolled back first.
    """
    try:
        address = f"{path.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(address, REGISTER_BUSY_SECONDS, uri=True)) as found:
            yield found
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be read: {first_line(error)}") from None
