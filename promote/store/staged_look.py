"""Count what waits in staging without a lock, without chromadb and without ever waiting long.

A folder's SQLite file is opened read-only and asked at once or not at all; a server is
asked a few bounded questions. Covered: a store that is busy, damaged, missing or down: then
the answer is None with the reason. Not covered: rows that are no candidates count too.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from lessons_loop.filter.errors import LessonsError, StoreError
from lessons_loop.filter.server_session import BoundedSession
from lessons_loop.filter.store import collection_names, first_line
from lessons_loop.promote.clock import parse_iso
from lessons_loop.promote.store.chroma import DATABASE
from lessons_loop.promote.store.places import FolderStore, LessonStore
from lessons_loop.promote.store.server_place import ServerStore

LOOK_SECONDS = 2.0
ANSWER_BYTES = 2**20
FIRST_ROWS = 20
"""Of a server's staging; about 200 KB, and one forged row hides no age."""
_COUNT = """
select count(*) from embeddings where segment_id in (
  select segments.id from segments join collections on collections.id = segments.collection
  where segments.scope = 'METADATA' and collections.name = ?)
"""
_OLDEST = """
select min(string_value) from embedding_metadata
where key = 'at' and string_value glob '20[0-9][0-9]-[01][0-9]-[0-3][0-9]*' and id in (
  select id from embeddings where segment_id in (
    select segments.id from segments join collections on collections.id = segments.collection
    where segments.scope = 'METADATA' and collections.name = ?))
"""


class Look(NamedTuple):
    """What staging holds of one domain."""

    candidates: int = 0
    events: int = 0
    oldest: str = ""
    """When the oldest candidate was staged, ISO 8601; empty without one."""


class Served(NamedTuple):
    """What a server says of one domain."""

    staged: Look
    header: Mapping[str, Any] | None
    """Metadata of curated's collection; None: there is none."""
    curated: int = 0


def look_at_staging(store: LessonStore, domain: str) -> Look:
    """Return what waits; raise StoreError where that cannot be said at once."""
    if isinstance(store, FolderStore):
        return look_in_folder(store.paths.staging, domain)
    if isinstance(store, ServerStore):
        return look_on_server(store, domain).staged
    return Look()


def look_in_folder(staging: Path, domain: str) -> Look:
    """Ask Chroma's own file, read-only: takes no lock that a plugin would wait for."""
    database = staging / DATABASE
    if not database.is_file():
        return Look()
    names = collection_names(domain)
    address = f"file:{quote(str(database))}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=0)) as file:
            candidates = int(file.execute(_COUNT, [names["candidates"]]).fetchone()[0])
            events = int(file.execute(_COUNT, [names["events"]]).fetchone()[0])
            oldest = file.execute(_OLDEST, [names["candidates"]]).fetchone()[0]
    except sqlite3.Error as error:
        raise StoreError(f"{staging} cannot be looked at now: {first_line(error)}") from None
    return Look(candidates, events, known_moment(oldest))


def known_moment(value: object) -> str:
    """Return a moment as it stands in a row, "" when it is none: anybody may have written it."""
    text = str(value or "")[:40]
    return text if parse_iso(text) else ""


def look_on_server(store: ServerStore, domain: str, seconds: float = LOOK_SECONDS) -> Served:
    """Ask a server; raise StoreError in one line when it does not answer in time."""
    with closing(BoundedSession(store.token, seconds, ANSWER_BYTES)) as session:
        asking = _Asking(session, f"{store.address.base}/api/v2/tenants/{store.address.tenant}")
        try:
            return asking.domain(domain)
        except LessonsError as error:
            raise StoreError(f"lesson store {store.title}: {error}") from None
        except Exception as error:  # httpx's many, and answers that make no sense
            raise StoreError(
                f"lesson store {store.title} cannot be looked at now: {first_line(error)}"
            ) from None


class _Asking:
    def __init__(self, session: BoundedSession, tenant: str) -> None:
        self._session, self._tenant = session, tenant

    def domain(self, domain: str) -> Served:
        names = collection_names(domain)
        staged = self._collection("staging", names["candidates"])
        candidates = self._count("staging", staged)
        look = Look(
            candidates,
            self._count("staging", self._collection("staging", names["events"])),
            self._oldest(staged) if candidates else "",
        )
        curated = self._collection("curated", names["curated"])
        header = (curated.get("metadata") or {}) if curated else None
        return Served(look, header, self._count("curated", curated))

    def _collection(self, database: str, name: str) -> Mapping[str, Any] | None:
        answer = self._session.request("GET", f"{self._base(database)}/{name}")
        if answer.status_code == 404:
            return None
        if answer.status_code != 200:
            raise StoreError(f"{name} cannot be asked for (HTTP {answer.status_code})")
        found = answer.json()
        return found if isinstance(found, dict) else None

    def _count(self, database: str, found: Mapping[str, Any] | None) -> int:
        if found is None:
            return 0
        answer = self._session.request("GET", f"{self._base(database)}/{found['id']}/count")
        return int(answer.json())

    def _oldest(self, found: Mapping[str, Any] | None) -> str:
        """Return the earliest moment of the rows that were added first."""
        wanted = json.dumps({"limit": FIRST_ROWS, "include": ["metadatas"]})
        url = f"{self._base('staging')}/{(found or {})['id']}/get"
        rows = self._session.request("POST", url, content=wanted).json()["metadatas"]
        return min(filter(None, (known_moment((row or {}).get("at")) for row in rows)), default="")

    def _base(self, database: str) -> str:
        return f"{self._tenant}/databases/{database}/collections"
