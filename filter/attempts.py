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

ATTEMPT_TABLES = """
create table if not exists attempts
  (number integer primary key, message text not null unique, day text not null);
create table if not exists uses (user text primary key, day text not null, number integer not null)
  without rowid;
create table if not exists unfinished
  (message text primary key, chat text not null, plugin text not null, domain text not null,
   finish text not null, recalled text not null, shown text not null,
   user_ref text not null, chat_ref text not null, at text not null, since real not null,
   owner text not null, beat integer not null, takes integer not null, tries integer not null)
  without rowid;
"""
ATTEMPT_HINT = "delete it, attempts are counted anew"
ATTEMPT_TROUBLE = "counting attempts"
TRIES_MOST = 2
"""Times a model is asked about one answer at most: once more where a worker died meanwhile."""
ATTEMPTS_KEPT = 20_000
ATTEMPT_DAYS = 7
"""An answer can be continued or posted again; after a week nobody does."""
EVERYBODY = ""


def attempts_file(root: Path) -> Path:
    """Return where a store folder's register of attempts is."""
    return root / "attempts.sqlite"


class Attempts:
    """Which answers a model was asked about, and how often today; hashes only.

    Answers under way have a row of ids beside them: see `unfinished`.
    """

    def __init__(self, path: Path, alerts: Alerts, kept: int = ATTEMPTS_KEPT) -> None:
        self.path, self.alerts, self.kept = path, alerts, kept
        self.alone = DailyCaps()

    async def refused(
        self, message: str, user: str, cap: int, user_cap: int, owner: str = ""
    ) -> str:
        """Take the one attempt of an answer; return why there is none, empty when there is.

        Where the register cannot be used, this worker counts for itself. `owner`: who has
        noted the answer as under way, empty where it is not.
        """
        try:
            reason = await asyncio.to_thread(self.take, message, user, cap, user_cap, owner=owner)
        except StoreError as error:
            self.alerts.warn(ATTEMPT_TROUBLE, f"{error}; each worker counts for itself")
            return "" if self.alone.take(user, cap, user_cap) else "daily-cap"
        self.alerts.clear(ATTEMPT_TROUBLE)
        return reason

    def take(
        self,
        message: str,
        user: str,
        cap: int,
        user_cap: int,
        day: datetime.date | None = None,
        owner: str = "",
    ) -> str:
        """Do the same where it must work: blocking, raises StoreError."""
        today = day or datetime.datetime.now(datetime.UTC).date()
        asked, asker = digest("attempt", message), digest("attempts of", today.isoformat(), user)
        with writing_register(self.path, ATTEMPT_TABLES, ATTEMPT_HINT) as found:
            forget_attempts(found, today)
            if owner and (tried := tried_again(found, message, owner)) is not None:
                return tried
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


def tried_again(found: sqlite3.Connection, message: str, owner: str) -> str | None:
    """Count a try of an answer under way; return what `take` says, None: it is the first one.

    A later try takes up what a dead worker had begun: its attempt is counted already.
    """
    query = "select tries from unfinished where message = ? and owner = ?"
    row = found.execute(query, (message, owner)).fetchone()
    if row is None:  # another worker took it up, or it was forgotten
        return "seen"
    if row[0] >= TRIES_MOST:
        return "given-up"
    found.execute("update unfinished set tries = tries + 1 where message = ?", (message,))
    return "" if row[0] else None


def uses_of(found: sqlite3.Connection, user: str) -> int:
    """Return how often somebody used it today."""
    row = found.execute("select number from uses where user = ?", (user,)).fetchone()
    return int(row[0]) if row else 0


def forget_attempts(found: sqlite3.Connection, today: datetime.date) -> None:
    """Drop other days' counts and attempts nobody repeats any more."""
    oldest = today - datetime.timedelta(days=ATTEMPT_DAYS)
    found.execute("delete from uses where day != ?", (today.isoformat(),))
    found.execute("delete from attempts where day < ?", (oldest.isoformat(),))
