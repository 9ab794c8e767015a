"""Copy a domain from a server into a scratch folder, through reading calls alone.

Covered: a gate that is at work, before or during the copy (refused).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from lessons_loop.filter.errors import StoreError, StoreMissing, StoreUnreachable
from lessons_loop.filter.store import StorePaths, collection_names, open_embedded
from lessons_loop.promote.errors import LockHeld
from lessons_loop.promote.journal import pending_domain
from lessons_loop.promote.rows import (
    PAGE,
    chroma_errors,
    find_collection,
    read_rows,
    space_of,
)
from lessons_loop.promote.server_lock import refuse_locked
from lessons_loop.promote.server_place import ServerStore

if TYPE_CHECKING:
    from chromadb.api import ClientAPI


def copy_collections(store: ServerStore, target: StorePaths, domain: str) -> None:
    """Fill the folder with what the server holds of a domain; raise LockHeld, StoreError.

    Of other domains only curated's header goes along, unless a change of theirs is unfinished.
    """
    domains = {domain, pending_domain(store.state)} - {""}
    with (
        store.told(),
        store.closing("curated") as curated,
        store.closing("gate") as archives,
        store.closing("staging") as staging,
    ):
        for name in domains:
            refuse_locked(archives, name)
        before = _pictures(curated, domains)
        with closing(open_embedded(target.gate)) as copy:  # type: ignore[type-var]
            _copy_curated(curated, copy, domains)
            _copy_named(archives, copy, [collection_names(one)["archive"] for one in domains])
        with closing(open_embedded(target.staging)) as copy:  # type: ignore[type-var]
            names = [collection_names(one) for one in domains]
            waiting = [one[kind] for one in names for kind in ("candidates", "events")]
            _copy_named(staging, copy, waiting)
        for name in domains:
            refuse_locked(archives, name)
        if _pictures(curated, domains) != before:
            raise LockHeld("a gate wrote while the store was read: run again")


def _pictures(curated: ClientAPI, domains: Iterable[str]) -> list[Any]:
    names = [collection_names(domain)["curated"] for domain in sorted(domains)]
    found = [find_collection(curated, name) for name in names]
    return [(one.id, one.metadata) if one is not None else None for one in found]


def _copy_curated(source: ClientAPI, target: ClientAPI, domains: set[str]) -> None:
    with chroma_errors("the gate's collections"):
        found = list(source.list_collections())
    for collection in found:
        header = collection.metadata or {}
        own = {collection_names(domain)["curated"] for domain in domains}
        wanted = header.get("domain") in domains or collection.name in own
        if wanted or "schema_version" in header:
            _copy_one(collection, target, rows=wanted)


def _copy_named(source: ClientAPI, target: ClientAPI, names: Iterable[str]) -> None:
    for name in names:
        if (collection := find_collection(source, name)) is not None:
            _copy_one(collection, target, rows=True)


def _copy_one(collection: Any, target: ClientAPI, *, rows: bool) -> None:
    with chroma_errors(collection.name):
        copy = target.create_collection(
            collection.name,
            configuration={"hnsw": {"space": space_of(collection)}},  # type: ignore[arg-type]
            metadata=collection.metadata or None,
            embedding_function=None,
        )
    if not rows:
        return
    for page in read_rows(collection):
        vectors = _vectors(collection, page.ids)
        with chroma_errors(collection.name):
            copy.add(
                ids=page.ids,
                documents=page.documents,
                metadatas=page.metadatas,  # type: ignore[arg-type]
                embeddings=vectors,
            )


def _vectors(collection: Any, ids: list[str]) -> Any:
    """Return the rows' vectors; zeros, which no reader takes for vectors, where they are lost."""
    assert len(ids) <= PAGE
    try:
        with chroma_errors(collection.name):
            page = collection.get(ids=ids, include=["embeddings"])
    except (StoreUnreachable, StoreMissing):
        raise
    except StoreError:
        page = {"ids": [], "embeddings": []}
    found = dict(zip(page["ids"], page["embeddings"], strict=True))
    size = max((len(row) for row in found.values()), default=1)
    return np.array([found.get(id_, [0.0] * size) for id_ in ids], dtype=np.float32)
