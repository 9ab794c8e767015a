"""One attempt per answer, and daily caps, over all workers of a machine.

Covered: processes that share the store's folder, on one machine or on a volume several pods
share; a worker started anew.
Not covered: pods with folders of their own count each for itself. The same answer may then be
asked about twice; of a lesson proposed twice staging keeps one row, because its id is made of
lesson and message.
"""

from __future__ import annotations

import asyncio
import datetime
import sqlite3
from pathlib import Path

from lessons_loop.filter.alerts import Alerts
from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.register import writing_register
from lessons_loop.filter.text import digest
from lessons_loop.filter.worker import DailyCaps

_ATTEMPT_TABLES = """
create table if not exists attempts
  (number integer primary key, message text not null unique, day text not null);
create table if not exists uses (user text primary key, day text not null, number integer not null)
  without rowid;
"""
ATTEMPTS_KEPT = 20_000
ATTEMPT_DAYS = 7
"""An answer can be continued or posted again; after a week nobody does."""
EVERYBODY = ""


class Attempts:
    """Which answers a model was asked about, and how often today; hashes only."""

    def __init__(self, path: Path, alerts: Alerts, kept: int = ATTEMPTS_KEPT) -> None:
        self.path, self.alerts, self.kept = path, alerts, kept
        self.alone = DailyCaps()

    async def refused(self, message: str, user: str, cap: int, user_cap: int) -> str:
        """Take the one attempt of an answer; return why there is none, empty when there is.

        Where the register cannot be used, this worker counts for itself.
        """
        try:
            reason = await asyncio.to_thread(self.take, message, user, cap, user_cap)
        except StoreError as error:
            self.alerts.warn("counting attempts", f"{error}; each worker counts for itself")
            return "" if self.alone.take(user, cap, user_cap) else "daily-cap"
        self.alerts.clear("counting attempts")
        return reason

    def take(
        self, message: str, user: str, cap: int, user_cap: int, day: datetime.date | None = None
    ) -> str:
        """Do the same where it must work: blocking, raises StoreError."""
        today = day or datetime.datetime.now(datetime.UTC).date()
        asked, asker = digest("attempt", message), digest("attempts of", today.isoformat(), user)
        hint = "delete it, attempts are counted anew"
        with writing_register(self.path, _ATTEMPT_TABLES, hint) as found:
            forget_attempts(found, today)
            if found.execute("select 1 from attempts where message = ?", (asked,)).fetchone():
                return "seen"
            if uses_of(found, EVERYBODY) >= cap or uses_of(found, asker) >= user_cap:
                return "daily-cap"
            for counted in (EVERYBODY, asker):
                found.execute(
                    "insert into uses values (?, ?, 1) "
                    "on conflict (user) do update set number = number + 1",
                    (counted, today.isoformat()),
                )
            self._note(found, asked, today)
        return ""

    def _note(self, found: sqlite3.Connection, asked: str, today: datetime.date) -> None:
        """Remember the answer, and only the newest ones."""
        values = (asked, today.isoformat())
        noted = found.execute("insert into attempts (message, day) values (?, ?)", values)
        oldest = (noted.lastrowid or 0) - self.kept
        found.execute("delete from attempts where number <= ?", (oldest,))


def uses_of(found: sqlite3.Connection, user: str) -> int:
    """Return how often somebody used it today."""
    row = found.execute("select number from uses where user = ?", (user,)).fetchone()
    return int(row[0]) if row else 0


def forget_attempts(found: sqlite3.Connection, today: datetime.date) -> None:
    """Drop other days' counts and attempts nobody repeats any more."""
    oldest = today - datetime.timedelta(days=ATTEMPT_DAYS)
    found.execute("delete from uses where day != ?", (today.isoformat(),))
    found.execute("delete from attempts where day < ?", (oldest.isoformat(),))
