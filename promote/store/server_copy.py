"""Copy a domain from a server into this process, through reading calls alone.

Covered: a gate that is at work, before or during the copy (refused).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from lessons_loop.filter.errors import StoreError, StoreMissing, StoreUnreachable
from lessons_loop.filter.store import collection_names
from lessons_loop.promote.errors import LockHeld
from lessons_loop.promote.ledger.journal import pending_domain
from lessons_loop.promote.store.copied import CopiedClient, CopiedRow, CopiedStore
from lessons_loop.promote.store.rows import (
    PLACEHOLDER,
    chroma_errors,
    find_collection,
    get_page,
    read_rows,
    space_of,
)
from lessons_loop.promote.store.server_lock import refuse_locked
from lessons_loop.promote.store.server_place import ServerStore

if TYPE_CHECKING:
    from chromadb.api import ClientAPI


def copy_collections(store: ServerStore, copy: CopiedStore, domain: str) -> None:
    """Fill the copy with what the server holds of a domain; raise LockHeld, StoreError.

    Of other domains only curated's header goes along, unless a change of theirs is unfinished.
    """
    domains = {domain, pending_domain(store.state)} - {""}
    names = [collection_names(one) for one in sorted(domains)]
    with (
        store.told(),
        store.closing("curated") as curated,
        store.closing("gate") as gate,
        store.closing("staging") as staging,
    ):
        before = _picture(curated, gate, domains)
        _copy_curated(curated, copy.curated, domains)
        _copy_named(gate, copy.gate, [one["archive"] for one in names])
        waiting = [one[kind] for one in names for kind in ("candidates", "events")]
        _copy_named(staging, copy.waiting, waiting)
        if _picture(curated, gate, domains) != before:
            raise LockHeld("a gate wrote while the store was read: run again")


def _picture(curated: ClientAPI, gate: ClientAPI, domains: Iterable[str]) -> list[Any]:
    """Return what every change of curated or archive changes; raise LockHeld beside a gate."""
    found = []
    for domain in sorted(domains):
        refuse_locked(gate, domain)
        one = find_collection(curated, collection_names(domain)["curated"])
        found.append((one.id, one.metadata) if one is not None else None)
    return found


def _copy_curated(source: ClientAPI, target: CopiedClient, domains: set[str]) -> None:
    own = {collection_names(domain)["curated"] for domain in domains}
    with chroma_errors("the gate's collections"):
        found = list(source.list_collections())
    for collection in found:
        header = collection.metadata or {}
        if header.get("domain") in domains or collection.name in own:
            _copy_one(collection, target, vectors=True)
        elif "schema_version" in header:
            _make(collection, target)


def _copy_named(source: ClientAPI, target: CopiedClient, names: Iterable[str]) -> None:
    for name in names:
        if (collection := find_collection(source, name)) is not None:
            _copy_one(collection, target, vectors=False)


def _make(collection: Any, target: CopiedClient) -> Any:
    shape = {"hnsw": {"space": space_of(collection)}}
    return target.create_collection(collection.name, shape, collection.metadata)


def _copy_one(collection: Any, target: CopiedClient, *, vectors: bool) -> None:
    copy = _make(collection, target)
    for page in read_rows(collection):
        found = _vectors(collection, page.ids) if vectors else {}
        for id_, document, metadata in zip(*page, strict=True):
            copy.rows[id_] = CopiedRow(document, metadata, found.get(id_, PLACEHOLDER))


def _vectors(collection: Any, ids: list[str]) -> dict[str, Any]:
    """Return the rows' vectors; zeros, which no reader takes for vectors, where they are lost."""
    try:
        page = get_page(collection, ("embeddings",), ids=ids)
    except (StoreUnreachable, StoreMissing):
        raise
    except StoreError:
        page = {"ids": [], "embeddings": []}
    rows = zip(page["ids"], page["embeddings"], strict=True)
    found = {id_: vector for id_, vector in rows if vector is not None}
    size = max((len(vector) for vector in found.values()), default=1)
    return {id_: found.get(id_, [0.0] * size) for id_ in ids}
