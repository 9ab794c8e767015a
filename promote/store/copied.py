"""A copy of a server's collections in this process, for dry runs: it may be changed and forgotten.

It knows the calls the gate makes and answers them as Chroma does; an embedded client
in a scratch folder took 9 s to fill with 2,000 lessons, this takes no time.
Not covered: searching.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lessons_loop.promote.files import private_folder
from lessons_loop.promote.store.places import Clients

if TYPE_CHECKING:
    from collections.abc import Callable

    from chromadb.api import ClientAPI


@dataclass
class CopiedRow:
    """One row."""

    document: str
    metadata: dict[str, Any] | None
    vector: Sequence[float]


class CopiedCollection:
    """A collection; rows keep the order they came in."""

    def __init__(
        self,
        home: dict[str, CopiedCollection],
        name: str,
        space: str = "cosine",
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self._home = home
        self.id, self.name = uuid.uuid4(), name
        self.metadata = dict(metadata) if metadata else None
        self.configuration_json = {"hnsw": {"space": space}}
        self.rows: dict[str, CopiedRow] = {}

    def count(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def get(
        self,
        ids: Sequence[str] | None = None,
        limit: int | None = None,
        offset: int = 0,
        include: Sequence[str] = ("documents", "metadatas"),
    ) -> dict[str, Any]:
        """Return rows in storage order."""
        wanted = None if ids is None else set(ids)
        names = [id_ for id_ in self.rows if wanted is None or id_ in wanted]
        names = names[offset : None if limit is None else offset + limit]
        rows = [self.rows[id_] for id_ in names]
        found: dict[str, Any] = {
            "documents": [row.document for row in rows],
            "metadatas": [dict(row.metadata) if row.metadata else None for row in rows],
            "embeddings": [row.vector for row in rows],
        }
        return {"ids": names} | {
            name: values if name in include else None for name, values in found.items()
        }

    def upsert(
        self,
        ids: Sequence[str],
        documents: Sequence[str],
        metadatas: Sequence[Mapping[str, Any]],
        embeddings: Sequence[Sequence[float]],
    ) -> None:
        """Store rows; the metadata of those there are merged."""
        for id_, document, metadata, vector in zip(
            ids, documents, metadatas, embeddings, strict=True
        ):
            old = self.rows.get(id_, CopiedRow("", None, ()))
            self.rows[id_] = CopiedRow(document, _merged(old.metadata, metadata), vector)

    def update(self, ids: Sequence[str], metadatas: Sequence[Mapping[str, Any]]) -> None:
        """Merge metadata into the rows that are there."""
        for id_, metadata in zip(ids, metadatas, strict=True):
            if row := self.rows.get(id_):
                row.metadata = _merged(row.metadata, metadata)

    def delete(self, ids: Sequence[str]) -> None:
        """Delete rows; missing ones are no error."""
        for id_ in ids:
            self.rows.pop(id_, None)

    def modify(self, name: str = "", metadata: Mapping[str, Any] | None = None) -> None:
        """Give it another name, or replace its metadata."""
        if metadata is not None:
            self.metadata = dict(metadata)
        if name:
            del self._home[self.name]
            self.name = name
            self._home[name] = self


def _merged(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**(old or {}), **new}.items() if value is not None}


@dataclass
class CopiedClient:
    """One database."""

    collections: dict[str, CopiedCollection] = field(default_factory=dict)

    def list_collections(self) -> list[CopiedCollection]:
        """Return all collections."""
        return list(self.collections.values())

    def get_collection(self, name: str, embedding_function: None = None) -> CopiedCollection:
        """Return one collection; raise Chroma's NotFoundError."""
        from chromadb.errors import NotFoundError

        if name not in self.collections:
            raise NotFoundError(f"Collection [{name}] does not exist")
        return self.collections[name]

    def create_collection(
        self,
        name: str,
        configuration: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        embedding_function: None = None,
    ) -> CopiedCollection:
        """Make a collection; raise ValueError where there is one."""
        if name in self.collections:
            raise ValueError(f"Collection [{name}] already exists")
        space = str(configuration["hnsw"]["space"])
        made = CopiedCollection(self.collections, name, space, metadata)
        self.collections[name] = made
        return made

    def get_or_create_collection(
        self,
        name: str,
        configuration: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        embedding_function: None = None,
    ) -> CopiedCollection:
        """Return a collection, made where it is missing."""
        found = self.collections.get(name)
        return found or self.create_collection(name, configuration, metadata)

    def delete_collection(self, name: str) -> None:
        """Delete a collection; raise NotFoundError."""
        self.get_collection(name)
        del self.collections[name]


@dataclass(frozen=True)
class CopiedStore:
    """A store of which only a copy is touched."""

    title: str
    state: Path
    """A copy of the state directory."""
    curated: CopiedClient = field(default_factory=CopiedClient)
    gate: CopiedClient = field(default_factory=CopiedClient)
    waiting: CopiedClient = field(default_factory=CopiedClient)

    def make_layout(self) -> None:
        """Make the state directory."""
        private_folder(self.state)

    @contextmanager
    def opened(self, domain: str, now: Callable[[], datetime]) -> Iterator[Clients]:
        """Return the copies; nobody else has them."""
        yield Clients(cast("ClientAPI", self.curated), cast("ClientAPI", self.gate))

    @contextmanager
    def staging(self, *, create: bool = False) -> Iterator[ClientAPI | None]:
        """Return the copy of staging."""
        yield cast("ClientAPI", self.waiting)

    def published(self, domain: str) -> Path | None:
        """Return None: recall reads curated itself."""
        return None
