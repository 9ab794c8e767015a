"""What was noted of each thumb: Open WebUI tells a deleted feedback by its id alone.

One SQLite file beside the spool, hashes only, shared by all processes of the machine. It
also keeps a repeat from becoming a row: one thumb is one `created` and several `updated`.
"""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from lessons_loop.filter.events import Rating
from lessons_loop.filter.register import writing_register

_RATINGS_TABLE = """
create table if not exists ratings
  (feedback text primary key, user text not null, row text not null) without rowid;
"""
RATING_MOMENT = "%Y-%m-%dT%H:%M:%S.%fZ"
"""Finer than other events: two changes of mind may fall into one second."""


class RatingRegister:
    """The thumbs of one store; `append` spools a row before the register forgets the old one."""

    def __init__(self, path: Path, append: Callable[[Rating], None]) -> None:
        self.path, self.append = path, append

    def note(self, feedback: str, rating: Rating) -> bool:
        """Append a thumb where it says something new; raise StoreError."""
        with self._writing() as found:
            before = noted(found, feedback)
            if said(rating) == said(before):
                return False
            self._keep(found, feedback, after(before, rating))
        return True

    def take_back(self, feedback: str, at: str) -> int:
        """Append that a deleted feedback counts no more; return how many rows; raise StoreError."""
        return self._take_back("where feedback = ?", (feedback,), at)

    def take_back_all(self, user_ref: str, at: str) -> int:
        """Do so for all feedback of a user, of everybody where none is named."""
        return self._take_back("where ? in ('', user)", (user_ref,), at)

    def forget(self, references: Iterable[str]) -> int:
        """Erase what names one of these users or chats; return how many; raise StoreError.

        For `lessons forget`: nothing is appended, nothing is made.
        """
        if not self.path.exists():
            return 0
        with self._writing() as found:
            found.execute("pragma secure_delete = on")
            query = "delete from ratings where instr(row, ?)"
            return sum(found.execute(query, (name,)).rowcount for name in references if name)

    def _take_back(self, where: str, values: tuple[str, ...], at: str) -> int:
        with self._writing() as found:
            names = found.execute(f"select feedback from ratings {where}", values).fetchall()
        return sum(self._take_one(name, at) for (name,) in names)

    def _take_one(self, feedback: str, at: str) -> bool:
        with self._writing() as found:
            before = noted(found, feedback)
            if before and before.outcome != "none":
                gone = {"outcome": "none", "at": at, "reason": "", "keys": ()}
                self.append(after(before, before.model_copy(update=gone)))
            found.execute("delete from ratings where feedback = ?", (feedback,))
        return bool(before and before.outcome != "none")

    def _keep(self, found: sqlite3.Connection, feedback: str, rating: Rating) -> None:
        self.append(rating)
        values = (feedback, rating.user_ref, rating.model_dump_json())
        found.execute("insert or replace into ratings values (?, ?, ?)", values)

    def _writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """Hold the register alone; what the block appended but could not note comes again."""
        return writing_register(self.path, _RATINGS_TABLE, "delete it, thumbs are noted anew")


def noted(found: sqlite3.Connection, feedback: str) -> Rating | None:
    """Return what was noted last of a feedback, None where nothing readable was."""
    query = "select row from ratings where feedback = ?"
    row = found.execute(query, (feedback,)).fetchone()
    try:
        return Rating.model_validate_json(row[0]) if row else None
    except ValueError:
        return None


def said(rating: Rating | None) -> tuple[object, ...]:
    """Return what a thumb says, when it was given aside; no thumb says what `none` does."""
    if rating is None or rating.outcome == "none":
        return ("none",)
    return (rating.message_ref, rating.outcome, rating.reason, rating.keys)


def after(before: Rating | None, rating: Rating) -> Rating:
    """Return the rating with a time later than the one before it, whatever the clock does."""
    if before is None or before.at < rating.at:
        return rating
    return rating.model_copy(update={"at": a_moment_later(before.at)})


def a_moment_later(at: str) -> str:
    """Return the next moment after a rating's."""
    moment = datetime.datetime.strptime(at, RATING_MOMENT).replace(tzinfo=datetime.UTC)
    return (moment + datetime.timedelta(microseconds=1)).strftime(RATING_MOMENT)


def rating_stamp(moment: datetime.datetime) -> str:
    """Return a moment as ratings carry it: ISO 8601, UTC, microseconds."""
    return moment.astimezone(datetime.UTC).strftime(RATING_MOMENT)
