"""What the gate's own collections hold, in memory and kept in step with every change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import ValidationError

from lessons_loop.filter.embed import Embedder, Fingerprint, Vectors, fingerprint
from lessons_loop.filter.errors import EmbeddingMismatch, StoreError
from lessons_loop.filter.models import Curated
from lessons_loop.filter.store import collection_names
from lessons_loop.promote.embedding.vector_table import VectorTable
from lessons_loop.promote.ledger.chain import Head
from lessons_loop.promote.ledger.journal import Plan
from lessons_loop.promote.records import Archived
from lessons_loop.promote.store.archive import ensure_archive, read_archive
from lessons_loop.promote.store.curated import Header, create_curated, find_curated, read_curated
from lessons_loop.promote.store.places import Clients
from lessons_loop.promote.store.rows import chroma_errors, read_vectors, unpack


class Holdings:
    """One domain's curated and archive."""

    def __init__(self, clients: Clients, domain: str) -> None:
        self._clients = clients
        self._domain = domain
        self.curated: dict[str, Curated] = {}
        self.unreadable: dict[str, str] = {}
        self.archive: dict[str, Archived] = {}
        self.header = Header(domain=domain, state_id="", state_dir="")
        self.model: Fingerprint | None = None
        """The session's embedding model, None without an embedder."""
        self.loaded = False
        self.collection: Any = None
        self._vectors: VectorTable | None = None
        self._archive_vectors = VectorTable({}, 0)

    def headers(self) -> list[Header]:
        """Return the headers of every curated collection in the store, rebuilds included."""
        return list(self._named_headers().values())

    def heads(self) -> Mapping[str, Head]:
        """Return the ledger head each domain's curated was last written with."""
        return {
            header.domain: header.head
            for name, header in self._named_headers().items()
            if name == collection_names(header.domain)["curated"]
        }

    def _named_headers(self) -> dict[str, Header]:
        found = {}
        with chroma_errors("the gate's collections"):
            collections = list(self._clients.curated.list_collections())
        for collection in collections:
            if "schema_version" in (collection.metadata or {}):
                found[collection.name] = Header.of(collection)
        return found

    def load(self, state_id: str, state_dir: str, *, any_space: bool = False) -> bool:
        """Read curated and archive, created where there are none; return whether they were."""
        collection = find_curated(self._clients.curated, self._domain, any_space=any_space)
        created = collection is None
        if created:
            fresh = Header(domain=self._domain, state_id=state_id, state_dir=state_dir)
            collection = create_curated(self._clients.curated, fresh)
        self.collection = collection
        self.header = self._own_header(state_id, state_dir, any_space)
        rows = read_curated(collection, self._domain)
        self.curated, self.unreadable = rows.lessons, rows.unreadable
        self._vectors = None
        self._load_archive()
        self.loaded = True
        return created

    def _own_header(self, state_id: str, state_dir: str, adopt: bool) -> Header:
        try:
            header = Header.of(self.collection)
        except StoreError:
            if not adopt:
                raise
            header = Header(domain=self._domain, state_id=state_id, state_dir=state_dir)
        return header.model_copy(update={"state_dir": state_dir})

    def _load_archive(self) -> None:
        written = self.header.head_n > 0
        collection = ensure_archive(self._clients.gate, self._domain, written=written)
        archive = read_archive(collection, self.header.generation)
        self.archive = archive.lessons
        self._archive_vectors = VectorTable(archive.vectors, self.dimension)

    def learn_model(self, embedder: Embedder | None) -> None:
        """Ask the embedder who it is; raise EmbedError."""
        self.model = fingerprint(embedder) if embedder is not None else None

    def refuse_other_model(self) -> None:
        """Raise EmbeddingMismatch when the session's model is not the stored vectors'."""
        stored = self._stored_model()
        if stored is not None and self.model is not None and not self.is_own_model:
            raise EmbeddingMismatch(
                f"{self._domain}-lessons was embedded by {_described(stored)}, "
                f"LESSONS_EMBEDDING is {_described(self.model)}: "
                f"run `lessons reembed --domain {self._domain}`"
            )

    @property
    def is_own_model(self) -> bool:
        """Whether the session's model may be compared with the stored vectors."""
        stored = self._stored_model()
        return self.model is not None and (stored is None or stored.matches(self.model))

    def _stored_model(self) -> Fingerprint | None:
        try:
            return self.header.fingerprint
        except ValidationError:
            return None

    @property
    def dimension(self) -> int:
        """Length of a vector; 0 while no model is known."""
        known = self._stored_model() or self.model
        return known.dimension if known else 0

    def matrix(self) -> tuple[tuple[str, ...], Vectors]:
        """Return keys and unit rows of curated; raise StoreDamaged when vectors are lost."""
        return self._known_vectors().matrix()

    def snapshot_matrix(self) -> Vectors:
        """Return curated's unit rows, none where they are lost: a snapshot needs the texts."""
        try:
            return self.matrix()[1]
        except StoreError:
            return np.empty((0, 0), dtype=np.float32)

    def archive_matrix(self) -> tuple[tuple[str, ...], Vectors]:
        """Return archive ids with a vector of the present model, and their unit rows."""
        return self._archive_vectors.matrix()

    def vector(self, key: str) -> Vectors | None:
        """Return a curated lesson's stored vector, None when there is none."""
        if key not in self.curated:
            return None
        try:
            return self._known_vectors().get(key)
        except StoreError:
            return None

    def _known_vectors(self) -> VectorTable:
        if self._vectors is None:
            keys = list(self.curated)
            found = read_vectors(self.collection, keys)
            self._vectors = VectorTable({key: found[key] for key in keys}, self.dimension)
        return self._vectors

    def absorb(self, plan: Plan) -> None:
        """Take over what a carried-out plan changed."""
        if plan.swap:
            self.load(plan.header.state_id, plan.header.state_dir)
            return
        self.header = plan.header
        for row in plan.put:
            self.unreadable.pop(row.id, None)
            self.curated[row.id] = Curated.from_record(row.record)
        for key in plan.remove:
            self.curated.pop(key, None)
        if self._vectors is not None:
            self._vectors.put({row.id: unpack(row.vector) for row in plan.put if row.vector})
            self._vectors.remove(plan.remove)
        self._absorb_archive(plan)

    def _absorb_archive(self, plan: Plan) -> None:
        for row in plan.archive:
            self.archive[row.id] = Archived.from_record(row.record)
        for id_ in plan.unarchive:
            self.archive.pop(id_, None)
        packed = {row.id: row.metadata.get("vector") for row in plan.archive}
        self._archive_vectors.put({id_: unpack(str(one)) for id_, one in packed.items() if one})
        gone = (id_ for id_, one in packed.items() if not one)
        self._archive_vectors.remove((*gone, *plan.unarchive))


def _described(model: Fingerprint) -> str:
    return f"{model.name or 'an unnamed model'} ({model.dimension} dimensions)"
