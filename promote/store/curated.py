"""Curated and its collection: the only code that changes curated lessons.

Whoever may call this may decide what every chat reads; outside the gate nobody
imports it (an import contract says so).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from lessons_loop.filter.embed import Fingerprint
from lessons_loop.filter.errors import InvalidLesson, StoreError
from lessons_loop.filter.models import Curated, Metadata, Record
from lessons_loop.filter.schema import SCHEMA, refuse_newer
from lessons_loop.filter.store import collection_names
from lessons_loop.promote.ledger.chain import Head
from lessons_loop.promote.store.rows import (
    Row,
    chroma_errors,
    create_cosine,
    delete_rows,
    field_names,
    find_collection,
    read_rows,
    space_of,
    write_rows,
)

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

NO_FLOOR = -1.0


class Header(BaseModel):
    """What curated's collection says about itself; kept as its metadata, scalars only."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA
    domain: str
    state_id: str
    """Which state directory this collection belongs to."""
    state_dir: str
    """Where that was last seen; for messages only."""
    embedding: str = ""
    """The fingerprint as JSON; empty before the first vector."""
    head_n: int = 0
    head_hash: str = ""
    rev: int = 0
    """Grows with every change of a curated row."""
    generation: int = 0
    """Grows with every re-embedding: archived vectors of an older one are void."""
    floor: float = NO_FLOOR
    """On a server, where recall reads curated itself: the calibrated relevance floor."""
    lexical_floor: float = NO_FLOOR
    mean: str = ""
    """Corpus mean to subtract, as a JSON list; empty: none."""
    calibrated_rev: int = -1
    """The `rev` the three belong to; -1: never calibrated."""

    @property
    def head(self) -> Head:
        """The ledger line curated was last written with."""
        return Head(self.head_n, self.head_hash)

    @property
    def fingerprint(self) -> Fingerprint | None:
        """The embedding model of the stored vectors."""
        return Fingerprint.model_validate_json(self.embedding) if self.embedding else None

    @classmethod
    def of(cls, collection: Any) -> Self:
        """Read a collection's metadata; raise StoreNewer, StoreError when it is none of ours."""
        refuse_newer(collection.metadata, collection.name)
        try:
            header = cls.model_validate(collection.metadata or {})
            header.fingerprint  # noqa: B018  # raises when it cannot be read
        except ValidationError:
            raise StoreError(f"{collection.name} was not made by `lessons init`") from None
        return header


UNCALIBRATED = {"floor": NO_FLOOR, "lexical_floor": NO_FLOOR, "mean": "", "calibrated_rev": -1}
"""Header fields after a change of model: the old model's floors would mislead."""


class CuratedRows(NamedTuple):
    """A domain's curated lessons as found."""

    lessons: dict[str, Curated]
    unreadable: dict[str, str]
    """Row id to reason: edited by hand or forged; never published."""
    fields: dict[str, set[str]]
    """Row id to the metadata names it has."""


def find_curated(client: ClientAPI, domain: str, *, any_space: bool = False) -> Any | None:
    """Return a domain's curated collection; raise StoreError unless it compares by cosine."""
    name = collection_names(domain)["curated"]
    collection = find_collection(client, name)
    if collection is None or any_space:
        return collection
    if (space := space_of(collection)) != "cosine":
        raise StoreError(
            f"{name} compares by {space}, the gate needs cosine: "
            f"run `lessons reembed --domain {domain}`"
        )
    return collection


def create_curated(client: ClientAPI, header: Header, name: str = "") -> Any:
    """Create a curated collection that carries `header`."""
    name = name or collection_names(header.domain)["curated"]
    return create_cosine(client, name, header.model_dump())


def read_curated(collection: Any, domain: str) -> CuratedRows:
    """Read all curated rows."""
    rows = CuratedRows({}, {}, {})
    for page in read_rows(collection):
        for id_, document, metadata in zip(*page, strict=True):
            rows.fields[id_] = field_names(metadata)
            try:
                rows.lessons[id_] = _curated(id_, document, metadata, domain)
            except (InvalidLesson, TypeError, ValueError) as error:
                rows.unreadable[id_] = str(error).splitlines()[0][:200]
    return rows


def _curated(id_: str, document: str, metadata: Metadata | None, domain: str) -> Curated:
    found = Curated.from_record(Record(id_, document, dict(metadata or {})))
    if found.lesson.domain != domain:
        raise InvalidLesson(f"domain: is {found.lesson.domain}")
    return found


class CuratedWriter:
    """Writes one domain's curated collection; every call may be repeated without effect."""

    def __init__(self, collection: Any) -> None:
        self._collection = collection

    def put(self, rows: Sequence[Row], fields: Mapping[str, set[str]]) -> None:
        """Store rows and read them back; `fields` names the metadata stored rows have."""
        write_rows(self._collection, rows, fields)

    def remove(self, keys: Sequence[str]) -> None:
        """Delete rows; the caller has seen them in the archive."""
        delete_rows(self._collection, keys)

    def set_header(self, header: Header, client: ClientAPI) -> None:
        """Replace the collection's metadata, which `modify` does not merge; read them back."""
        name = self._collection.name
        with chroma_errors(name):
            self._collection.modify(metadata=header.model_dump())
        stored = find_collection(client, name)
        if stored is None or Header.of(stored) != header:
            raise StoreError(f"{name}: its header was not stored: run again")
