"""The use register: every folded usage event once, with what a thumb said about it.

One SQLite file a domain, `state/uses/<domain>.sqlite`. Counters in curated are made from
it; an event whose id stands here is never counted again. Only the gate's one write path
(`effects.carry_out`) changes it, by absolute rows, so that a replay changes nothing. Its
schema is the file's `user_version`; 0: the first.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from lessons_loop.filter.errors import StoreDamaged, StoreError
from lessons_loop.filter.events import Rating, Usage
from lessons_loop.filter.inject import reference
from lessons_loop.filter.models import Record
from lessons_loop.filter.schema import FIRST_SCHEMA, MARK_FIELD, SCHEMA, refuse_newer
from lessons_loop.promote.files import file_errors, private_folder

_TABLES = """
create table if not exists uses (id text primary key, row text not null);
create table if not exists shown (key text not null, id text not null, primary key (key, id))
  without rowid;
create index if not exists shown_id on shown (id);
"""
PAGE_OF_IDS = 500
MEND = "run `lessons repair`"


class Use(BaseModel):
    """One answer that was given lessons."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """The usage event's id."""
    message_ref: str
    user_ref: str = ""
    chat_ref: str = ""
    at: str
    """ISO 8601, UTC; never later than when it was folded."""
    keys: tuple[str, ...]
    """Keys of the lessons that were shown."""
    model: str = ""
    finish: str = ""
    """Why the answer ended."""
    tools: str = ""
    """`ok` or `failed`; empty: no tool ran."""
    rating: str = ""
    """`up` or `down`; empty: no thumb, or one taken back."""
    rated_at: str = ""
    """As the newest rating said it, one taken back included; empty: never rated."""
    rating_reason: str = ""
    rated_keys: tuple[str, ...] = ()
    """Lessons a comment named; empty: all of them."""

    def to_events(self) -> list[Record]:
        """Return the rows of staging it was folded from, so that it can be folded again."""
        mine = {"message_ref": self.message_ref, "user_ref": self.user_ref}
        told = {"chat_ref": self.chat_ref, "model": self.model, "tools": self.tools}
        usage = Usage.build(keys=self.keys, at=self.at, outcome=self.finish, **mine, **told)
        if not self.rated_at:
            return [usage.to_record()]
        rating = Rating.build(
            keys=tuple(reference(key) for key in self.rated_keys),
            at=self.rated_at,
            outcome=self.rating or "none",
            reason=self.rating_reason,
            chat_ref=self.chat_ref,
            **mine,
        )
        return [usage.to_record(), rating.to_record()]


class UseRegister:
    """One domain's register; without its file it is empty."""

    def __init__(self, state: Path, domain: str, schema: int = SCHEMA) -> None:
        self.schema = schema
        """The store's, for a file that is made."""
        self.path = state / "uses" / f"{domain}.sqlite"

    def rows(self) -> Iterator[Use]:
        """Yield all uses by id; raise StoreError."""
        with self._reading() as found:
            if found is not None:
                for (row,) in found.execute("select row from uses order by id"):
                    yield self._read(row)

    def judgeable(self, *, by_tools: bool) -> Iterator[Use]:
        """Yield the uses a thumb judged, or a tool's result too, by id."""
        query = "select row from uses where json_extract(row, '$.rating') != ''"
        query += " or json_extract(row, '$.tools') != ''" if by_tools else ""
        with self._reading() as found:
            if found is not None:
                for (row,) in found.execute(f"{query} order by id"):
                    yield self._read(row)

    def keys(self) -> set[str]:
        """Return the lessons that were shown at all."""
        with self._reading() as found:
            rows = found.execute("select distinct key from shown") if found is not None else ()
            return {key for (key,) in rows}

    def get(self, ids: Sequence[str]) -> dict[str, Use]:
        """Return the uses among `ids`."""
        return self._selected("select row from uses where id in ({})", ids)

    def of_keys(self, keys: Sequence[str]) -> dict[str, Use]:
        """Return the uses that showed one of these lessons, by id."""
        query = "select row from uses where id in (select id from shown where key in ({}))"
        return self._selected(query, keys)

    def put(self, rows: Iterable[Use]) -> None:
        """Store uses by id, on disk before it returns; raise StoreError."""
        fresh = list(rows)
        if not fresh:
            return
        with self._writing() as connection:
            self._drop(connection, [row.id for row in fresh])
            connection.executemany(
                "insert into uses values (?, ?)", [(row.id, row.model_dump_json()) for row in fresh]
            )
            connection.executemany(
                "insert or ignore into shown values (?, ?)",
                [(key, row.id) for row in fresh for key in row.keys],
            )

    def create(self) -> None:
        """Make the file, empty; raise StoreError."""
        with self._writing():
            pass

    def refuse_newer(self) -> None:
        """Raise StoreNewer where a later release keeps the file."""
        self._version()

    def mark(self, schema: int) -> None:
        """Let the file say which schema its rows have; without a file there is nothing to say."""
        if self._version() not in (None, schema):
            with self._writing() as connection:
                _set_schema(connection, schema)

    def _version(self) -> int | None:
        with self._reading() as found:
            version = found.execute("pragma user_version").fetchone() if found else None
        return int(version[0]) if version else None

    def remove(self, ids: Sequence[str]) -> None:
        """Drop uses; ones that are gone are no error."""
        if not ids or not self.path.exists():
            return
        with self._writing() as connection:
            self._drop(connection, ids)

    def _selected(self, query: str, values: Sequence[str]) -> dict[str, Use]:
        found: dict[str, Use] = {}
        with self._reading() as connection:
            for start in range(0, len(values) if connection else 0, PAGE_OF_IDS):
                page = list(values[start : start + PAGE_OF_IDS])
                marks = ", ".join("?" * len(page))
                assert connection is not None
                for (row,) in connection.execute(query.format(marks), page):
                    use = self._read(row)
                    found[use.id] = use
        return found

    def _drop(self, connection: sqlite3.Connection, ids: Sequence[str]) -> None:
        for table in ("uses", "shown"):
            connection.executemany(f"delete from {table} where id = ?", [(id_,) for id_ in ids])

    def _read(self, row: str) -> Use:
        try:
            return Use.model_validate_json(row)
        except ValidationError:
            raise StoreDamaged(f"{self.path} holds a row that cannot be read: {MEND}") from None

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        if not self.path.exists():
            yield None
            return
        with self._errors(), closing(sqlite3.connect(self.path)) as connection:
            self._refuse_newer(connection)
            yield connection

    def _refuse_newer(self, connection: sqlite3.Connection) -> None:
        (version,) = connection.execute("pragma user_version").fetchone()
        refuse_newer({MARK_FIELD: version or FIRST_SCHEMA}, str(self.path))

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        private_folder(self.path.parent)
        new = not self.path.exists()
        with self._errors(), closing(sqlite3.connect(self.path)) as connection:
            os.chmod(self.path, 0o600)
            self._refuse_newer(connection)
            if new:
                _set_schema(connection, self.schema)
            connection.execute("pragma synchronous = full")
            connection.execute("pragma secure_delete = on")  # what is forgotten is overwritten
            connection.executescript(_TABLES)
            with connection:
                yield connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with file_errors(self.path):
                yield
        except sqlite3.Error as error:
            if not isinstance(error, sqlite3.OperationalError) or "no such table" in str(error):
                raise StoreDamaged(f"{self.path} is damaged ({error}): {MEND}") from None
            raise StoreError(f"{self.path} cannot be used: {error}") from None


def _set_schema(connection: sqlite3.Connection, schema: int) -> None:
    connection.execute(f"pragma user_version = {schema:d}")
