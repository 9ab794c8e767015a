"""The gate's view of staging: candidates and events, read and deleted in short sessions.

Whatever lies there may be forged: a row that cannot be read is counted, never an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from lessons_loop.filter.errors import InvalidLesson
from lessons_loop.filter.events import EventRecord, Rating, Tally, Usage
from lessons_loop.filter.models import Candidate, Metadata, Record
from lessons_loop.filter.schema import MARK_FIELD, SCHEMA
from lessons_loop.filter.store import STAGING_VECTOR, collection_names
from lessons_loop.promote.store.places import FolderStore, StagingPlace
from lessons_loop.promote.store.rows import (
    PAGE,
    Row,
    chroma_errors,
    delete_rows,
    find_collection,
    get_page,
    pack,
    read_rows,
    write_rows,
)
from lessons_loop.promote.store.staging_made import make_staging

EVENT_TYPES: dict[str, type[EventRecord]] = {one.kind: one for one in (Usage, Rating, Tally)}

DROP_FROM = 500
ROW_LIMIT = 256 * 1024
"""Characters of a row; ours have 10,000 at most."""
Found = TypeVar("Found")


class Staged(NamedTuple):
    """A domain's candidates, oldest first, and how many rows were none."""

    candidates: list[Candidate]
    unreadable: int


class StagedEvents(NamedTuple):
    """A domain's events, each with its row id, and the ids of rows that are none."""

    usages: list[tuple[str, Usage]]
    unreadable: list[str]
    ratings: list[tuple[str, Rating]]
    tallies: list[tuple[str, Tally]]
    later: Sequence[tuple[str, str]] = ()
    """Ids of rows a later plugin wrote, each with its time; none of the unreadable."""


def read_candidates(place: StagingPlace, domain: str) -> Staged:
    """Read staging's candidates; raise StoreLocked or StoreDamaged."""
    (records,) = read_staging(place, collection_names(domain)["candidates"])
    return _staged(records, domain)


def read_events(place: StagingPlace, domain: str) -> StagedEvents:
    """Read staging's events; raise StoreLocked or StoreDamaged."""
    (records,) = read_staging(place, collection_names(domain)["events"])
    return _staged_events(records)


def read_staged(place: StagingPlace, domain: str) -> tuple[Staged, StagedEvents]:
    """Read both in one session, tallies left out; raise StoreLocked or StoreDamaged."""
    names = collection_names(domain)
    candidates, events = read_staging(place, names["candidates"], names["events"])
    judging = [record for record in events if record.metadata.get("type") != Tally.kind]
    return _staged(candidates, domain), _staged_events(judging)


def _staged(records: Sequence[Record], domain: str) -> Staged:
    found, bad = _sorted_out(records, lambda record: candidate_of(record, domain))
    return Staged([candidate for _, candidate in found], len(bad))


def _staged_events(records: Sequence[Record]) -> StagedEvents:
    found, bad = _sorted_out(records, event_of)
    strange = set(bad)
    later = dict(_sorted_out([one for one in records if one.id in strange], later_time)[0])
    return StagedEvents(
        [(id_, event) for id_, event in found if isinstance(event, Usage)],
        [id_ for id_ in bad if id_ not in later],
        [(id_, event) for id_, event in found if isinstance(event, Rating)],
        [(id_, event) for id_, event in found if isinstance(event, Tally)],
        tuple(later.items()),
    )


def delete_staged(
    place: StagingPlace, domain: str, candidates: Sequence[str], events: Sequence[str]
) -> None:
    """Delete rows from staging; rows already gone are no error."""
    names = collection_names(domain)
    wanted = {names["candidates"]: candidates, names["events"]: events}
    if not (candidates or events):
        return
    with place.staging() as client:
        for name, ids in wanted.items():
            collection = find_collection(client, name) if client is not None and ids else None
            if collection is None or client is None:
                continue
            if isinstance(place, FolderStore) and _are_all(collection, ids):
                client.delete_collection(name)
                make_staging(client, name, collection.metadata)
            else:
                delete_rows(collection, ids)


def _are_all(collection: Any, ids: Sequence[str]) -> bool:
    """Say whether many rows are all there are: dropping 100,000 takes 4 s, deleting them 20 s.

    For a folder, under its lock: on a server the plugin keeps the collection's id.
    """
    if len(ids) < DROP_FROM:
        return False
    with chroma_errors(collection.name):
        if collection.count() > len(set(ids)):
            return False
        return set(collection.get(include=[])["ids"]) <= set(ids)


def put_back(
    place: StagingPlace,
    domain: str,
    candidates: Sequence[Row],
    events: Sequence[Row],
    schema: int = SCHEMA,
) -> None:
    """Add rows to staging again; ids that are there stay as they are. Raises StoreError."""
    names = collection_names(domain)
    wanted = {names["candidates"]: candidates, names["events"]: events}
    if not (candidates or events):
        return
    ensure_staging(place, domain, schema)
    with place.staging() as client:
        for name, rows in wanted.items():
            if client is not None and rows:
                _put_missing(find_collection(client, name), rows)


def _put_missing(collection: Any, rows: Sequence[Row]) -> None:
    known: set[str] = set()
    ids = [row.id for row in rows]
    for start in range(0, len(ids), PAGE):
        known.update(get_page(collection, (), ids=ids[start : start + PAGE])["ids"])
    vector = pack(np.asarray(STAGING_VECTOR, dtype=np.float32))
    fresh = [row.model_copy(update={"vector": vector}) for row in rows if row.id not in known]
    write_rows(collection, fresh, {})


def ensure_staging(place: StagingPlace, domain: str, schema: int = SCHEMA) -> None:
    """Create a domain's staging collections where they are missing; `schema`: the store's."""
    names = collection_names(domain)
    with place.staging(create=True) as client:
        for name in (names["candidates"], names["events"]):
            if client is not None and find_collection(client, name) is None:
                make_staging(client, name, {MARK_FIELD: schema})


def read_staging(place: StagingPlace, *names: str) -> list[list[Record]]:
    """Return the rows of each collection, read in one session."""
    with place.staging() as client:
        found = [find_collection(client, name) if client is not None else None for name in names]
        return [
            [
                bounded(id_, document, metadata)
                for page in (read_rows(collection) if collection is not None else ())
                for id_, document, metadata in zip(*page, strict=True)
            ]
            for collection in found
        ]


def bounded(id_: str, document: str, metadata: Metadata | None) -> Record:
    """Return a row; of a huge one, which anybody may stage, the id alone: all are held at once."""
    values = [document or "", *(metadata or {}), *(metadata or {}).values()]
    if sum(len(str(value)) for value in values) > ROW_LIMIT:
        return Record(id_, "", {})
    return Record(id_, document, dict(metadata or {}))


def _sorted_out(
    records: Sequence[Record], read: Callable[[Record], Found]
) -> tuple[list[tuple[str, Found]], list[str]]:
    found: list[tuple[str, Found]] = []
    bad: list[str] = []
    for record in records:
        try:
            found.append((record.id, read(record)))
        except (InvalidLesson, TypeError, LookupError, ValueError, AttributeError):
            bad.append(record.id)
    return found, bad


def candidate_of(record: Record, domain: str) -> Candidate:
    """Return a row as a candidate of this domain; raise InvalidLesson."""
    candidate = Candidate.from_record(record)
    if candidate.lesson.domain != domain:
        raise InvalidLesson(f"domain: is {candidate.lesson.domain}")
    return candidate


def event_of(record: Record) -> EventRecord:
    """Return a row as the event its id belongs to; raise InvalidLesson, or KeyError by its type."""
    event = EVENT_TYPES[str(record.metadata.get("type"))].from_record(record)
    if event.id != record.id:
        raise InvalidLesson("id: does not belong to this content")
    return event


def later_time(record: Record) -> str:
    """Return the time of an event with fields only a later release knows; raise as `event_of`."""
    known = {"type", *EVENT_TYPES[str(record.metadata.get("type"))].model_fields}
    own = {name: value for name, value in record.metadata.items() if name in known}
    return event_of(record._replace(metadata=own)).at
