"""Carry a plan out on the store; every step may be repeated without effect.

Order: archive first, so that nothing leaves curated or staging before it stands
elsewhere; the header, with the ledger's head, only after the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lessons_loop.filter.errors import StoreMissing
from lessons_loop.filter.store import collection_names
from lessons_loop.promote.decay.uses import UseRegister
from lessons_loop.promote.ledger.journal import Plan
from lessons_loop.promote.store.archive import ensure_archive, write_archive
from lessons_loop.promote.store.candidates import delete_staged, put_back
from lessons_loop.promote.store.curated import CuratedWriter, find_curated
from lessons_loop.promote.store.places import Clients, LessonStore
from lessons_loop.promote.store.rows import (
    Row,
    chroma_errors,
    delete_rows,
    find_collection,
    get_page,
)

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

REBUILD = "-rebuild"

Checkpoint = Callable[[str], None]
CHECKPOINTS = (
    "payload",
    "draft",
    "ledger",
    "journal",
    "archive",
    "curated",
    "removed",
    "header",
    "uses",
    "staged",
    "cleared",
)
"""Names given to a checkpoint function, in order, during `GateSession.apply`."""


def no_checkpoint(name: str) -> None:
    """Do nothing: the default."""


def carry_out(
    clients: Clients, place: LessonStore, plan: Plan, checkpoint: Checkpoint = no_checkpoint
) -> None:
    """Make the store as the plan says; raise StoreError with the plan still on record."""
    clients.guard()
    if plan.swap:
        swap_rebuilt(clients.curated, plan.domain, checkpoint)
    curated = _present(clients.curated, plan.domain)
    archive = ensure_archive(clients.gate, plan.domain, written=True)
    write_archive(archive, plan.archive, stored_fields(archive, plan.archive))
    checkpoint("archive")
    clients.guard()
    schema = plan.header.schema_version
    put_back(place, plan.domain, plan.stage, plan.stage_events, schema)
    _write_curated(clients, curated, plan, checkpoint)
    register = UseRegister(place.state, plan.domain, schema)
    register.put(plan.uses)
    register.remove(plan.drop_uses)
    checkpoint("uses")
    clients.guard()
    delete_rows(archive, plan.unarchive)
    delete_staged(place, plan.domain, plan.staged, plan.events)
    checkpoint("staged")


def _present(client: ClientAPI, domain: str) -> Any:
    collection = find_curated(client, domain)
    if collection is None:
        raise StoreMissing(f"{collection_names(domain)['curated']} is gone: restore the store")
    return collection


def _write_curated(clients: Clients, collection: Any, plan: Plan, checkpoint: Checkpoint) -> None:
    writer = CuratedWriter(collection)
    writer.put(plan.put, stored_fields(collection, plan.put))
    checkpoint("curated")
    writer.remove(plan.remove)
    checkpoint("removed")
    clients.guard()  # many rows take longer than a lock's term
    writer.set_header(plan.header, clients.curated)
    checkpoint("header")


def stored_fields(collection: Any, rows: tuple[Row, ...]) -> dict[str, set[str]]:
    """Return the metadata names the stored rows have, by id."""
    fields: dict[str, set[str]] = {}
    ids = [row.id for row in rows]
    for start in range(0, len(ids), 500):
        page = get_page(collection, ("metadatas",), ids=ids[start : start + 500])
        for id_, metadata in zip(page["ids"], page["metadatas"], strict=True):
            fields[id_] = set(metadata or {})
    return fields


def swap_rebuilt(client: ClientAPI, domain: str, checkpoint: Checkpoint) -> None:
    """Let the finished rebuild take curated's name; the old collection goes only then."""
    name = collection_names(domain)["curated"]
    rebuilt = find_collection(client, name + REBUILD)
    if rebuilt is None:  # a replay after the rename
        return
    with chroma_errors(name):
        if find_collection(client, name) is not None:
            client.delete_collection(name)
        checkpoint("old curated deleted")
        rebuilt.modify(name=name)
    checkpoint("rebuild renamed")


def settle_leftover_rebuild(client: ClientAPI, domain: str) -> None:
    """Drop a rebuild whose decision was never recorded; take it where it is all there is."""
    name = collection_names(domain)["curated"]
    if find_collection(client, name + REBUILD) is None:
        return
    if find_collection(client, name) is None:
        swap_rebuilt(client, domain, no_checkpoint)
        return
    with chroma_errors(name):
        client.delete_collection(name + REBUILD)
