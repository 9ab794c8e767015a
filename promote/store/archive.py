"""The archive: lessons out of use or never let in, with why and what they came with.

Its Chroma vectors are placeholders, because a lesson may be held before any
embedder is known; a real vector, where there was one, is kept in the row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.errors import InvalidLesson, StoreMissing
from lessons_loop.filter.models import Record
from lessons_loop.filter.schema import MARK_FIELD, SCHEMA
from lessons_loop.filter.store import collection_names
from lessons_loop.promote.records import Archived
from lessons_loop.promote.store.rows import (
    PLACEHOLDER,
    Row,
    create_cosine,
    field_names,
    find_collection,
    pack,
    read_rows,
    unpack,
    write_rows,
)

if TYPE_CHECKING:
    from chromadb.api import ClientAPI


class ArchiveRows(NamedTuple):
    """A domain's archive as found."""

    lessons: dict[str, Archived]
    vectors: dict[str, Vectors]
    """By archive id; only those of the present generation."""
    fields: dict[str, set[str]]


def ensure_archive(client: ClientAPI, domain: str, *, written: bool) -> Any:
    """Return a domain's archive; one that was `written` to is never made anew.

    Raises StoreMissing: an empty one in its place would forget every rejection.
    """
    name = collection_names(domain)["archive"]
    found = find_collection(client, name)
    if found is None and written:
        raise StoreMissing(f"{name} is missing: restore the store from a backup")
    return create_cosine(client, name, {MARK_FIELD: SCHEMA}) if found is None else found


def archive_row(archived: Archived, vector: Vectors | None, generation: int) -> Row:
    """Return the row of an archived lesson, its real vector inside the metadata."""
    record = archived.to_record()
    metadata = dict(record.metadata)
    if vector is not None:
        metadata |= {"vector": pack(vector), "generation": generation}
    placeholder = pack(np.asarray(PLACEHOLDER, dtype=np.float32))
    return Row.of(Record(record.id, record.document, metadata), placeholder)


def read_archive(collection: Any, generation: int) -> ArchiveRows:
    """Read all archive rows; unreadable ones are left where they are."""
    rows = ArchiveRows({}, {}, {})
    for page in read_rows(collection):
        for id_, document, metadata in zip(*page, strict=True):
            rows.fields[id_] = field_names(metadata)
            try:
                found = Archived.from_record(Record(id_, document, dict(metadata or {})))
            except InvalidLesson:
                continue
            rows.lessons[id_] = found
            if metadata.get("generation") == generation and "vector" in metadata:
                rows.vectors[id_] = unpack(str(metadata["vector"]))
    return rows


def write_archive(collection: Any, rows: Sequence[Row], fields: Mapping[str, set[str]]) -> None:
    """Store archive rows and read them back."""
    write_rows(collection, rows, fields)
