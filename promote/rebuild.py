"""Rebuild what can be rebuilt: vectors from texts, the published file, staging after a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from lessons_loop.filter.embed import Fingerprint, Vectors
from lessons_loop.filter.errors import EmbedError, InvalidLesson
from lessons_loop.filter.models import Curated, Record
from lessons_loop.filter.server import ServerAddress
from lessons_loop.filter.store import collection_names
from lessons_loop.promote.clock import utc_now
from lessons_loop.promote.curated import UNCALIBRATED, Header, create_curated
from lessons_loop.promote.effects import REBUILD
from lessons_loop.promote.journal import Plan
from lessons_loop.promote.ledger import LedgerEntry
from lessons_loop.promote.records import Action, Actor, Change
from lessons_loop.promote.repair import RepairReport, repair_gate, repair_staging
from lessons_loop.promote.rows import (
    Row,
    chroma_errors,
    find_collection,
    pack,
    read_rows,
    write_rows,
)
from lessons_loop.promote.server_check import check_server
from lessons_loop.promote.session import GateSession, GateSettings, open_gate
from lessons_loop.promote.state import existing_store

__all__ = [
    "RepairReport",
    "publish",
    "re_embed",
    "re_embed_domain",
    "repair_gate",
    "repair_staging",
    "repair_store",
]


def repair_store(store: str) -> list[RepairReport]:
    """Repair a folder's staging and curated; a server is only looked at. Raises StoreError."""
    place = existing_store(store)
    if isinstance(place, ServerAddress):
        return check_server(place)
    return [repair_staging(place), repair_gate(place)]


def publish(session: GateSession) -> None:
    """Write the published file anew, current or not; raise StoreError."""
    session.publish(force=True)


def re_embed_domain(
    settings: GateSettings,
    *,
    now: Callable[[], datetime] = utc_now,
) -> int:
    """Open a store whose model changed and re-embed it; return how many lessons."""
    with open_gate(settings, now=now, re_embedding=True) as session:
        return re_embed(session)


def re_embed(session: GateSession) -> int:
    """Embed every curated text anew; ids, texts, metadata and counters stay.

    The new collection is complete before the decision is written; then it takes the
    old one's name. The session must have been opened with `re_embedding=True` where
    the model differs. Raises EmbedError, StoreError.
    """
    model = session.holdings.model
    if session.embedder is None or model is None:
        raise EmbedError("no embedder: set LESSONS_EMBEDDING to the new model")
    session.prepare()
    records = list(_records(session.holdings.collection))
    vectors = session.embed([_embedded_text(record) for record in records])
    old = session.holdings.header
    was, becomes = old.fingerprint, model
    entry = session.entry_for(
        Change(
            action=Action.RE_EMBED,
            key="",
            reason=f"{len(records)} lessons embedded by {becomes.name}",
            actor=Actor(kind="rule", name="re-embed"),
            payload={
                "lessons": [record.id for record in records],
                "from": was.model_dump(mode="json") if was else None,
                "to": becomes.model_dump(mode="json"),
            },
        )
    )
    header = _next_header(old, becomes, entry)
    _build(session, header, records, vectors)
    session.checkpoint("rebuilt")
    session.commit(Plan(entry=entry, header=header, swap=True))
    return len(records)


def _next_header(old: Header, model: Fingerprint, entry: LedgerEntry) -> Header:
    return old.model_copy(
        update={
            "embedding": model.model_dump_json(),
            "generation": old.generation + 1,
            **UNCALIBRATED,
            "rev": old.rev + 1,
            "head_n": entry.n,
            "head_hash": entry.hash,
        }
    )


def _build(session: GateSession, header: Header, records: list[Record], vectors: Vectors) -> None:
    name = collection_names(session.domain)["curated"] + REBUILD
    session.clients.guard()
    with chroma_errors(name):
        if find_collection(session.clients.curated, name) is not None:
            session.clients.curated.delete_collection(name)
    fresh = create_curated(session.clients.curated, header, name)
    rows = [Row.of(record, pack(vector)) for record, vector in zip(records, vectors, strict=True)]
    write_rows(fresh, rows, {})


def _records(collection: Any) -> Iterator[Record]:
    for page in read_rows(collection):
        for id_, document, metadata in zip(*page, strict=True):
            yield Record(id_, document or "", dict(metadata or {"unreadable": True}))


def _embedded_text(record: Record) -> str:
    try:
        return Curated.from_record(record).lesson.embedded_text
    except (InvalidLesson, ValueError, TypeError):
        return record.document
