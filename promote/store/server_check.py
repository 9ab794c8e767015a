"""What `lessons repair` does on a server: look. Its files are its own affair.

Covered: missing databases, collections that cannot be read, another space, lost vectors,
a lock left behind.
Not covered: whether rows are the ones the ledger tells of (`lessons verify`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from lessons_loop.filter.errors import StoreError, StoreUnreachable
from lessons_loop.filter.server import ServerAddress, open_server, server_token
from lessons_loop.promote.errors import LockHeld
from lessons_loop.promote.store.chroma import load_chroma
from lessons_loop.promote.store.repair import RepairReport
from lessons_loop.promote.store.rows import chroma_errors, read_rows, read_vectors, space_of
from lessons_loop.promote.store.server_lock import refuse_held
from lessons_loop.promote.store.server_place import CALL_SECONDS, DATABASES

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

_LOCK = re.compile(r"[a-z0-9-]+-lock")


def check_server(address: ServerAddress) -> list[RepairReport]:
    """Read every row of a store on a server; one report a database. Raises StoreUnreachable."""
    load_chroma()
    return [_check_database(address, name) for name in DATABASES]


def _check_database(address: ServerAddress, database: str) -> RepairReport:
    rows, problems = 0, []
    try:
        client = open_server(address, database, token=server_token(), seconds=CALL_SECONDS)
        with closing(client):  # type: ignore[type-var]
            for found in _collections(client):
                count, wrong = _check_collection(client, found, searched=database == "curated")
                rows += count
                problems += wrong
    except StoreUnreachable:
        raise
    except StoreError as error:
        problems.append(str(error))
    outcome = "damaged" if problems else "sound"
    note = "; ".join(problems) if problems else f"{database} is sound, {rows} rows"
    return RepairReport(outcome, rows, None, database, note)


def _collections(client: ClientAPI) -> Iterator[Any]:
    with chroma_errors("the collections"):
        yield from client.list_collections()


def _check_collection(
    client: ClientAPI, collection: Any, *, searched: bool
) -> tuple[int, list[str]]:
    if _LOCK.fullmatch(collection.name):
        return 0, _check_lock(client, collection)
    try:
        ids = [id_ for page in read_rows(collection) for id_ in page.ids]
        if searched:
            read_vectors(collection, ids)
            if (space := space_of(collection)) != "cosine":
                return len(ids), [f"{collection.name} compares by {space}: run `lessons reembed`"]
    except StoreUnreachable:
        raise
    except StoreError as error:
        return 0, [str(error)]
    return len(ids), []


def _check_lock(client: ClientAPI, collection: Any) -> list[str]:
    try:
        refuse_held(collection, client)
    except LockHeld as error:
        return [str(error)]
    return []
