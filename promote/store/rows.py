"""Rows of the gate's own collections: read in pages, written and read back.

Every call that fails inside Chroma ends as one line of ours.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.errors import (
    AnswerTooLarge,
    LessonsError,
    StoreDamaged,
    StoreError,
    StoreMissing,
    StoreUnreachable,
)
from lessons_loop.filter.models import Metadata, Record
from lessons_loop.filter.schema import refuse_newer
from lessons_loop.filter.server import transport_reason
from lessons_loop.filter.store import first_line
from lessons_loop.promote.by_weight import by_weight

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

PAGE, ID_PAGE = 250, 20_000
"""Rows asked for at once: of 1,000 an embedded Chroma keeps 100 MB afterwards (measured)."""
WRITE_BATCH, WRITE_BYTES = 500, 8 * 2**20
"""Of one batch; a Chroma server takes 40 MiB, and numbers may grow threefold on their way."""
PLACEHOLDER = [1.0]
"""Vector of collections that are never searched."""


class Row(BaseModel):
    """A row as it shall be, ready for the journal; no vector: the stored one is kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    document: str
    metadata: dict[str, str | int | float | bool | list[str]]
    vector: str | None = None
    """Little-endian float32, base64."""

    @classmethod
    def of(cls, record: Record, vector: str | None = None) -> Row:
        """Return the row of a record."""
        return cls(id=record.id, document=record.document, metadata=record.metadata, vector=vector)

    @property
    def record(self) -> Record:
        """The row without its vector."""
        return Record(self.id, self.document, dict(self.metadata))


class Stored(NamedTuple):
    """Rows as found, in storage order."""

    ids: list[str]
    documents: list[str]
    metadatas: list[Metadata]


def field_names(metadata: Metadata | None) -> set[str]:
    """Return the names of a row's metadata; each name once in memory, however many rows."""
    return set(map(sys.intern, metadata or ()))


def pack(vector: Vectors) -> str:
    """Return one vector as text."""
    return base64.b64encode(np.asarray(vector, dtype="<f4").tobytes()).decode()


def unpack(text: str) -> Vectors:
    """Return the vector `pack` wrote."""
    return np.frombuffer(base64.b64decode(text), dtype="<f4").astype(np.float32)


@contextmanager
def chroma_errors(name: str) -> Iterator[None]:
    """Turn what Chroma raises into one StoreError line naming the collection."""
    try:
        yield
    except LessonsError as error:
        if isinstance(error, StoreError) and name not in str(error):
            raise type(error)(f"{name}: {error}") from None
        raise
    except Exception as error:
        raise _translated(error, name) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # chromadb's Rust core
            raise
        raise StoreDamaged(f"{name}: {first_line(error)}") from None


def _translated(error: Exception, name: str) -> StoreError:
    import httpx
    from chromadb.errors import NotFoundError

    if isinstance(error, httpx.TransportError):
        reason = transport_reason(error)
        return StoreUnreachable(f"{name}: the server does not answer ({reason}): run again later")
    if isinstance(error, TypeError | LookupError | AttributeError | ValidationError):
        return _nonsense(name)
    kind = StoreMissing if isinstance(error, NotFoundError) else StoreError
    return kind(f"{name}: {first_line(error)}")


def _nonsense(name: str) -> StoreUnreachable:
    return StoreUnreachable(f"{name}: the store's answer makes no sense: look at its server")


def get_page(collection: Any, include: Sequence[str], **which: Any) -> dict[str, Any]:
    """Return what `get` answers, each list as long as `ids`; raise StoreError."""
    with chroma_errors(name := collection.name):
        page = collection.get(include=list(include), **which)
        ids = page["ids"]
        lists = [[] if page[field] is None else page[field] for field in include]
        sound = isinstance(ids, list) and all(isinstance(id_, str) for id_ in ids)
        if not sound or any(len(found) != len(ids) for found in lists):
            raise _nonsense(name)
    return {"ids": ids, **dict(zip(include, lists, strict=True))}


def find_collection(client: ClientAPI, name: str) -> Any | None:
    """Return a collection, None when there is none; raise StoreNewer."""
    from chromadb.errors import NotFoundError

    with chroma_errors(name):
        try:
            found = client.get_collection(name, embedding_function=None)
            refuse_newer(found.metadata, name)
            return found
        except NotFoundError:
            return None


def create_cosine(
    client: ClientAPI, name: str, metadata: Mapping[str, Any] | None = None, space: Any = "cosine"
) -> Any:
    """Create a collection of our own: cosine (a copy: what the original is), no function."""
    with chroma_errors(name):
        return client.create_collection(
            name,
            configuration={"hnsw": {"space": space}},
            metadata=dict(metadata) if metadata else None,
            embedding_function=None,
        )


def space_of(collection: Any) -> str:
    """Return the space a collection really compares by."""
    with chroma_errors(collection.name):
        return str((collection.configuration_json.get("hnsw") or {}).get("space"))


def read_rows(collection: Any) -> Iterator[Stored]:
    """Yield all rows in pages, oldest first; huge ones, which anybody may stage, apart.

    Ids come first: an offset makes Chroma pass over all rows before it, for each page again.
    """
    for ids in _id_pages(collection):
        start, most = 0, PAGE
        while start < len(ids):
            batch = ids[start : start + most]
            try:
                page = get_page(collection, ("documents", "metadatas"), ids=batch)
            except AnswerTooLarge as error:
                most = _fewer(most, error)
                continue
            yield _ordered(page, batch)
            start += len(batch)


def _id_pages(collection: Any) -> Iterator[list[str]]:
    offset, most = 0, ID_PAGE
    while True:
        try:
            ids = get_page(collection, (), limit=most, offset=offset)["ids"]
        except AnswerTooLarge as error:
            most = _fewer(most, error)
            continue
        if not ids:
            return
        yield ids
        offset += len(ids)


def _fewer(most: int, error: AnswerTooLarge) -> int:
    if most > 1:
        return most // 10 or 1
    raise error


def _ordered(page: Mapping[str, Any], ids: Sequence[str]) -> Stored:
    found = {row[0]: row for row in zip(*page.values(), strict=True)}
    rows = [found[id_] for id_ in ids if id_ in found]
    return Stored([row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])


def read_vectors(collection: Any, ids: Sequence[str]) -> dict[str, Vectors]:
    """Return the stored unit rows by id; raise StoreDamaged when one is missing or is none."""
    found: dict[str, Vectors] = {}
    for start in range(0, len(ids), PAGE):
        batch = list(ids[start : start + PAGE])
        try:
            page = get_page(collection, ("embeddings",), ids=batch)
        except (StoreUnreachable, StoreMissing):
            raise
        except StoreError:
            raise _lost(collection.name) from None
        rows = _unit_rows(page["embeddings"], collection.name)
        found.update(zip(page["ids"], rows, strict=True))
    if len(found) != len(set(ids)):
        raise _lost(collection.name)
    return found


def _unit_rows(rows: Any, name: str) -> Vectors:
    try:
        matrix = np.asarray(rows, dtype=np.float32).reshape(len(rows), -1 if len(rows) else 0)
    except (TypeError, ValueError):
        raise _lost(name) from None
    # a torn index file is padded with zeros or rubbish, without an error
    if len(matrix) and not np.allclose(np.linalg.norm(matrix, axis=1), 1.0, atol=0.01):
        raise _lost(name)
    return matrix


def _lost(name: str) -> StoreDamaged:
    return StoreDamaged(f"{name} has lost vectors, its texts are whole: run `lessons reembed`")


def write_rows(collection: Any, rows: Sequence[Row], dropped: Mapping[str, set[str]]) -> None:
    """Upsert rows and read them back; `dropped` names metadata each row no longer has."""
    new = [row for row in rows if row.vector is not None]
    kept = [row for row in rows if row.vector is None]
    with chroma_errors(collection.name):
        for batch in _batches(new):
            collection.upsert(
                **_fields(batch, dropped), embeddings=[unpack(row.vector or "") for row in batch]
            )
        for batch in _batches(kept):
            fields = _fields(batch, dropped)
            collection.update(ids=fields["ids"], metadatas=fields["metadatas"])
    for batch in _batches(rows):
        _read_back(collection, batch)


def _batches(rows: Sequence[Row]) -> Iterator[list[Row]]:
    return by_weight(rows, lambda row: len(row.model_dump_json()), WRITE_BYTES, WRITE_BATCH)


def _fields(rows: Sequence[Row], dropped: Mapping[str, set[str]]) -> dict[str, Any]:
    # upsert and update merge metadata: only None takes a name away
    gone = [dict.fromkeys(dropped.get(row.id, set()) - set(row.metadata)) for row in rows]
    return {
        "ids": [row.id for row in rows],
        "documents": [row.document for row in rows],
        "metadatas": [dict(row.metadata) | none for row, none in zip(rows, gone, strict=True)],
    }


def _read_back(collection: Any, rows: Sequence[Row]) -> None:
    page = get_page(collection, ("documents", "metadatas"), ids=[row.id for row in rows])
    found = {
        id_: (document, metadata) for id_, document, metadata in zip(*page.values(), strict=True)
    }
    bad = [row.id for row in rows if found.get(row.id) != (row.document, dict(row.metadata))]
    if bad:
        raise StoreError(f"{collection.name}: {len(bad)} of {len(rows)} rows were not stored")
    read_vectors(collection, [row.id for row in rows if row.vector is not None])


def delete_rows(collection: Any, ids: Sequence[str]) -> None:
    """Delete rows by id; missing ones are no error; raise StoreError when one stays."""
    with chroma_errors(collection.name):
        for start in range(0, len(ids), WRITE_BATCH):
            batch = list(ids[start : start + WRITE_BATCH])
            collection.delete(ids=batch)
            if left := collection.get(ids=batch, include=[])["ids"]:
                raise StoreError(f"{collection.name}: {len(left)} rows were not deleted")
