"""The gate's view of staging: candidates and events, read and deleted in short sessions.

Whatever lies there may be forged: a row that cannot be read is counted, never an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from lessons_loop.filter.errors import InvalidLesson
from lessons_loop.filter.events import Usage
from lessons_loop.filter.models import Candidate, Record
from lessons_loop.filter.store import StorePaths, collection_names, staging_session
from lessons_loop.promote.files import file_errors
from lessons_loop.promote.repair import clear_sound_marker
from lessons_loop.promote.rows import delete_rows, find_collection, read_rows

STAGING_SECONDS = 10.0
"""How long the gate waits for the plugin's short sessions."""
LATER_TYPES = ("rating",)
"""Event types another reader folds; they stay."""

Found = TypeVar("Found")


class Staged(NamedTuple):
    """A domain's candidates, oldest first, and how many rows were none."""

    candidates: list[Candidate]
    unreadable: int


class StagedEvents(NamedTuple):
    """A domain's usage events by row id, and the ids of rows that are none."""

    usages: list[tuple[str, Usage]]
    unreadable: list[str]


def read_candidates(paths: StorePaths, domain: str) -> Staged:
    """Read staging's candidates; raise StoreLocked or StoreDamaged."""
    records = _read_staging(paths, collection_names(domain)["candidates"])
    found, bad = _sorted_out(records, lambda record: _candidate(record, domain))
    return Staged([candidate for _, candidate in found], len(bad))


def read_usages(paths: StorePaths, domain: str) -> StagedEvents:
    """Read staging's usage events; raise StoreLocked or StoreDamaged."""
    records = _read_staging(paths, collection_names(domain)["events"])
    mine = [record for record in records if record.metadata.get("type") not in LATER_TYPES]
    return StagedEvents(*_sorted_out(mine, _usage))


def delete_staged(
    paths: StorePaths, domain: str, candidates: Sequence[str], events: Sequence[str]
) -> None:
    """Delete rows from staging; rows already gone are no error."""
    names = collection_names(domain)
    wanted = {names["candidates"]: candidates, names["events"]: events}
    if not (candidates or events) or not paths.staging.is_dir():
        return
    clear_sound_marker(paths, STAGING_SECONDS)
    with file_errors(paths.staging), staging_session(paths, STAGING_SECONDS) as client:
        for name, ids in wanted.items():
            collection = find_collection(client, name) if ids else None
            if collection is not None:
                delete_rows(collection, ids)


def _read_staging(paths: StorePaths, name: str) -> list[Record]:
    if not paths.staging.is_dir():
        return []
    clear_sound_marker(paths, STAGING_SECONDS)
    with file_errors(paths.staging), staging_session(paths, STAGING_SECONDS) as client:
        collection = find_collection(client, name)
        if collection is None:
            return []
        return [
            Record(id_, document, dict(metadata or {}))
            for page in read_rows(collection)
            for id_, document, metadata in zip(*page, strict=True)
        ]


def _sorted_out(
    records: Sequence[Record], read: Callable[[Record], Found]
) -> tuple[list[tuple[str, Found]], list[str]]:
    found: list[tuple[str, Found]] = []
    bad: list[str] = []
    for record in records:
        try:
            found.append((record.id, read(record)))
        except (InvalidLesson, TypeError, ValueError, AttributeError):
            bad.append(record.id)
    return found, bad


def _candidate(record: Record, domain: str) -> Candidate:
    candidate = Candidate.from_record(record)
    if candidate.lesson.domain != domain:
        raise InvalidLesson(f"domain: is {candidate.lesson.domain}")
    return candidate


def _usage(record: Record) -> Usage:
    usage = Usage.from_record(record)
    if usage.id != record.id:
        raise InvalidLesson("id: does not belong to this content")
    return usage
