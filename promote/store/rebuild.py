"""Rebuild what can be rebuilt: vectors from texts, the published file, staging after a crash."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lessons_loop.filter.embed import Embedder, Fingerprint, Purpose, Vectors, unit_rows
from lessons_loop.filter.errors import EmbedError, InvalidLesson, StoreError
from lessons_loop.filter.models import Curated, Record
from lessons_loop.filter.server import ServerAddress
from lessons_loop.filter.store import collection_names
from lessons_loop.promote.clock import utc_now
from lessons_loop.promote.decay.repair_uses import repair_registers
from lessons_loop.promote.decide.effects import REBUILD
from lessons_loop.promote.embedding.forms import NO_EMBEDDER
from lessons_loop.promote.embedding.rebuild_vectors import BATCH, Report, VectorFile
from lessons_loop.promote.ledger.chain import Ledger, LedgerEntry
from lessons_loop.promote.ledger.journal import Plan
from lessons_loop.promote.records import Action, Actor, Change
from lessons_loop.promote.session import GateSession, GateSettings, open_gate
from lessons_loop.promote.state import existing_store, locate
from lessons_loop.promote.store.archive import archive_row
from lessons_loop.promote.store.curated import UNCALIBRATED, Header, create_curated
from lessons_loop.promote.store.lock import gate_lock
from lessons_loop.promote.store.repair import RepairReport, repair_gate, repair_staging
from lessons_loop.promote.store.rows import (
    Row,
    chroma_errors,
    find_collection,
    pack,
    read_rows,
    read_vectors,
    write_rows,
)
from lessons_loop.promote.store.server_check import check_server
from lessons_loop.promote.store.server_place import ServerStore

SAMPLE = 8
"""Rows embedded a second time before the switch."""
SAME_COSINE = 0.999
"""Some engines round a batch otherwise than a single text."""

__all__ = [
    "RepairReport",
    "publish",
    "re_embed",
    "re_embed_domain",
    "repair_gate",
    "repair_staging",
    "repair_store",
]


class Estimate(NamedTuple):
    """What re-embedding would do."""

    lessons: int
    archived: int
    done: int
    """Texts an interrupted run has embedded already."""
    seconds: float
    """What the rest would take, from a sample."""


def no_report(what: str, done: int, total: int) -> None:
    """Tell nobody."""


def repair_store(store: str, state: Path | None = None) -> list[RepairReport]:
    """Repair staging, curated, ledger, uses; of a server its state directory alone. StoreError."""
    place = existing_store(store)
    if isinstance(place, ServerAddress):
        return check_server(place) + ([] if state is None else _repair_state(store, state))
    return [repair_staging(place), repair_gate(place), *_repair_state(store, state)]


def _repair_state(store: str, state: Path | None) -> list[RepairReport]:
    place = locate(store, state)
    lock = place.state_lock if isinstance(place, ServerStore) else place.paths.gate_lock
    if not (place.state / "ledger.jsonl").exists():
        return [RepairReport("sound", 0, None, "ledger")]
    with gate_lock(lock, utc_now):
        return [_repair_ledger(place.state), *repair_registers(place.state, utc_now)]


def _repair_ledger(state: Path) -> RepairReport:
    """Move half a line at the ledger's end aside: it was never acknowledged."""
    aside = Ledger(state).move_torn_tail_aside()
    if aside is None:
        return RepairReport("sound", 0, None, "ledger")
    note = f"ledger: half a line at its end is now {aside}"
    return RepairReport("rebuilt", 0, aside, "ledger", note)


def publish(session: GateSession) -> None:
    """Write the published file anew, current or not; raise StoreError."""
    session.publish(force=True)


def re_embed_domain(
    settings: GateSettings,
    *,
    now: Callable[[], datetime] = utc_now,
    report: Report = no_report,
) -> int:
    """Open a store whose model changed and re-embed it; return how many lessons."""
    with open_gate(settings, now=now, re_embedding=True) as session:
        return re_embed(session, report)


def estimate(session: GateSession) -> Estimate:
    """Say how many texts there are and how long the rest would take; asks for one batch."""
    embedder, model = _models(session)
    texts = [*_curated_texts(session).values(), *_archive_texts(session).values()]
    todo = VectorFile(session.state, session.domain, model).missing(texts)
    began, sample = time.monotonic(), todo[: BATCH // 4]
    if sample:
        embedder.embed(sample, Purpose.DOCUMENT)
    each = (time.monotonic() - began) / max(1, len(sample))
    counts = len(_curated_texts(session)), len(session.archive)
    return Estimate(*counts, len(set(texts)) - len(todo), each * len(todo))


def re_embed(session: GateSession, report: Report = no_report) -> int:
    """Embed every curated and archived text anew; ids, texts, metadata and counters stay.

    Vectors are kept as they come: a killed run goes on where it stopped. The new
    collection is complete and checked before the decision is written; then it takes the
    old one's name. The session must have been opened with `re_embedding=True` where the
    model differs. Raises EmbedError, StoreError.
    """
    embedder, becomes = _models(session)
    session.prepare()
    texts, archived = _curated_texts(session), _archive_texts(session)
    vectors = VectorFile(session.state, session.domain, becomes)
    vectors.fill(embedder, [*texts.values(), *archived.values()], _stepping(session, report))
    was = session.holdings.header.fingerprint
    entry = session.entry_for(_decision(list(texts), was, becomes))
    header = _next_header(session.holdings.header, becomes, entry)
    report("building", 0, 1)
    records = list(_records(session.holdings.collection))
    fresh = _build(session, header, records, vectors.rows([texts[one.id] for one in records]))
    try:
        _verify(fresh, records, texts, embedder)
    except EmbedError:
        vectors.drop()
        raise
    session.checkpoint("rebuilt")
    rows = [
        archive_row(row, vectors.rows([archived[id_]])[0], header.generation)
        for id_, row in session.archive.items()
    ]
    session.commit(Plan(entries=(entry,), header=header, archive=tuple(rows), swap=True))
    vectors.drop()
    report("building", 1, 1)
    return len(records)


def _models(session: GateSession) -> tuple[Embedder, Fingerprint]:
    if session.embedder is None or session.holdings.model is None:
        raise EmbedError(f"{NO_EMBEDDER}, the new model")
    return session.embedder, session.holdings.model


def _stepping(session: GateSession, report: Report) -> Report:
    def tell(what: str, done: int, total: int) -> None:
        session.checkpoint("embedded")
        session.clients.guard()  # embedding may take longer than a lock's term
        report(what, done, total)

    return tell


def _decision(keys: list[str], was: Fingerprint | None, becomes: Fingerprint) -> Change:
    return Change(
        action=Action.RE_EMBED,
        key="",
        reason=f"{len(keys)} lessons embedded by {becomes.name}",
        actor=Actor(kind="rule", name="re-embed"),
        payload={
            "lessons": keys,
            "from": was.model_dump(mode="json") if was else None,
            "to": becomes.model_dump(mode="json"),
        },
    )


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


def _build(session: GateSession, header: Header, records: list[Record], vectors: Vectors) -> Any:
    name = collection_names(session.domain)["curated"] + REBUILD
    session.clients.guard()
    with chroma_errors(name):
        if find_collection(session.clients.curated, name) is not None:
            session.clients.curated.delete_collection(name)
    fresh = create_curated(session.clients.curated, header, name)
    rows = [Row.of(record, pack(vector)) for record, vector in zip(records, vectors, strict=True)]
    write_rows(fresh, rows, {})
    return fresh


def _verify(
    fresh: Any, records: Sequence[Record], texts: dict[str, str], embedder: Embedder
) -> None:
    """Raise StoreError unless the rebuild holds every row and its vectors are the model's."""
    built = {record.id: record for record in _records(fresh)}
    if built != {record.id: record for record in records}:
        raise StoreError(f"{fresh.name}: is not what curated holds: run again")
    ids = list(built)
    vectors = read_vectors(fresh, ids)  # raises for one that is missing or no unit row
    sample = ids[:: max(1, len(ids) // SAMPLE)][:SAMPLE]
    if not sample:
        return
    again = unit_rows(embedder.embed([texts[id_] for id_ in sample], Purpose.DOCUMENT), len(sample))
    stored = np.stack([vectors[id_] for id_ in sample])
    if again.shape != stored.shape or (np.sum(again * stored, axis=1) < SAME_COSINE).any():
        raise EmbedError(
            "the model answers otherwise than before for the same text: nothing was switched; "
            "run again, and where it stays so, look at the model's server"
        )


def _curated_texts(session: GateSession) -> dict[str, str]:
    return {one.id: _embedded_text(one) for one in _records(session.holdings.collection)}


def _archive_texts(session: GateSession) -> dict[str, str]:
    return {id_: row.lesson.embedded_text for id_, row in session.archive.items()}


def _records(collection: Any) -> Iterator[Record]:
    for page in read_rows(collection):
        for id_, document, metadata in zip(*page, strict=True):
            yield Record(id_, document or "", dict(metadata or {"unreadable": True}))


def _embedded_text(record: Record) -> str:
    try:
        return Curated.from_record(record).lesson.embedded_text
    except (InvalidLesson, ValueError, TypeError):
        return record.document
