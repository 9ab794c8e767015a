"""Rows of staging that are no candidates: once old they are copied aside, then taken out.

    state/unreadable/<domain>/seen.json      when rows that tell no time of theirs were first seen
    state/unreadable/<domain>/<stamp>.jsonl  copies, masked, for the owner only

An old plugin or a forger could fill staging with them for ever. Order: copy, read back,
delete through the one write path; where a step fails the rows stay and the run ends.

Covered: rows without a time, or with one in the future, count from when a writing run first
saw them; a killed run (the copy is made once more).
Not covered: the text of a row above 256 KB, of which the id alone is kept; copies beyond
64 MB a domain, of which the oldest files go, as the ledger's line says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from lessons_loop.filter.errors import InvalidLesson, StoreError
from lessons_loop.filter.models import Candidate, Evidence, Lesson, Record
from lessons_loop.filter.store import collection_names, first_line
from lessons_loop.filter.text import digest, shorten
from lessons_loop.promote.by_weight import by_weight
from lessons_loop.promote.clock import iso, parse_iso, stamp
from lessons_loop.promote.counting import many
from lessons_loop.promote.decay.fold_rows import AHEAD, WAIT_DAYS
from lessons_loop.promote.decide.changes import masked_values
from lessons_loop.promote.files import file_errors, private_folder, write_atomic
from lessons_loop.promote.records import Action, Actor, Change
from lessons_loop.promote.session import GateSession
from lessons_loop.promote.store.candidates import candidate_of, read_staging
from lessons_loop.promote.store.places import StagingPlace

FOLDER, SEEN = "unreadable", "seen.json"
LATER_DAYS = 365
"""How long a candidate waits that only a later release's gate reads."""
FILE_BYTES, TOTAL_BYTES = 8 * 2**20, 64 * 2**20
"""Of one file of copies, of all files of a domain."""
ID_SHOWN = 200
RULE = Actor(kind="rule", name="unreadable")
_FIELDS = {"evidence_kind", *Lesson.model_fields, *Evidence.model_fields, *Candidate.model_fields}
"""Of a candidate's row in this release."""


class Unreadable(NamedTuple):
    """A row that is no candidate."""

    record: Record
    why: str
    later: bool
    """Whether it would be one without fields that this release does not know."""

    @property
    def mark(self) -> str:
        """Stands for its id, which may be of any length."""
        return digest(self.record.id)[:24]


class Due(NamedTuple):
    """A row that leaves, and the time it counted from."""

    row: Unreadable
    since: datetime


def set_aside_old(session: GateSession, *, write: bool) -> int:
    """Take old unreadable rows out of staging; return how many; raise StoreError.

    Without `write` nothing changes, not even what is known of when they were seen.
    """
    rows = read_unreadable(session.store, session.domain)
    folder = session.state / FOLDER / session.domain
    seen, now = read_seen(folder / SEEN), session.now()
    since = {row.mark: since_of(row, seen, now) for row in rows}
    due = [Due(row, since[row.mark]) for row in rows if is_due(row, since[row.mark], now)]
    if write:
        if due:
            session.prepare()  # a run that cannot decide anything copies nothing, week after week
        for number, page in enumerate(pages(due)):
            _take_out(session, folder / f"{stamp(now)}-{number:04d}.jsonl", page)
        gone = {one.row.mark for one in due}
        kept = [row for row in rows if row.mark not in gone and own_time(row, now) is None]
        _note_seen(folder, {row.mark: iso(since[row.mark]) for row in kept}, seen)
    return len(due)


def read_unreadable(place: StagingPlace, domain: str) -> list[Unreadable]:
    """Return staging's rows that are no candidates of the domain; raise StoreError."""
    (records,) = read_staging(place, collection_names(domain)["candidates"])
    found = []
    for record in records:
        if why := _reason(record, domain):
            own = {name: record.metadata[name] for name in record.metadata if name in _FIELDS}
            later = not _reason(record._replace(metadata=own), domain)
            found.append(Unreadable(record, why, later))
    return found


def _reason(record: Record, domain: str) -> str:
    try:
        candidate_of(record, domain)
    except (InvalidLesson, TypeError, LookupError, ValueError, AttributeError) as error:
        return first_line(error)
    return ""


def own_time(row: Unreadable, now: datetime) -> datetime | None:
    """Return the time a row tells; None for none, and for one that would keep it for ever."""
    moment = parse_iso(str(row.record.metadata.get("at", "")))
    return moment if moment is not None and moment <= now + AHEAD else None


def since_of(row: Unreadable, seen: Mapping[str, str], now: datetime) -> datetime:
    """Return when a row's time began: its own, else when it was first seen, else now."""
    noted = parse_iso(seen.get(row.mark, ""))
    first = noted if noted is not None and noted <= now else now  # the clock may be set back
    return own_time(row, now) or first


def is_due(row: Unreadable, since: datetime, now: datetime) -> bool:
    """Say whether a row has waited long enough for a gate that reads it."""
    return now - since > timedelta(days=LATER_DAYS if row.later else WAIT_DAYS)


def read_seen(path: Path) -> dict[str, str]:
    """Return when rows were first seen, by mark; a file that is none tells of none."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}  # rows count from now on: they stay longer, none is lost
    items = found.items() if isinstance(found, dict) else ()
    return {mark: at for mark, at in items if isinstance(at, str)}


def _note_seen(folder: Path, known: Mapping[str, str], before: Mapping[str, str]) -> None:
    if known == before:
        return
    _made(folder)
    write_atomic(folder / SEEN, json.dumps(known, sort_keys=True).encode())


def _made(folder: Path) -> None:
    for part in (folder.parent, folder):
        private_folder(part)


def pages(due: Sequence[Due], most: int = FILE_BYTES) -> Iterator[list[tuple[str, bytes]]]:
    """Yield ids with their copies, of about `most` bytes at a time."""
    copies = ((one.row.record.id, copy_of(one)) for one in due)
    return by_weight(copies, lambda copied: len(copied[1]), most)


def copy_of(one: Due) -> bytes:
    """Return a row as a line of JSON, every word of it masked, other signs than ASCII escaped."""
    id_, document, metadata = one.row.record
    told = {
        "id": shorten(id_, ID_SHOWN),
        "mark": one.row.mark,
        "since": iso(one.since),
        "why": one.row.why,
        "document": document,
        "metadata": [[name, metadata[name]] for name in sorted(metadata)],
    }
    return json.dumps(masked_values(told)).encode() + b"\n"


def _take_out(session: GateSession, path: Path, page: Sequence[tuple[str, bytes]]) -> None:
    content = b"".join(line for _, line in page)
    _made(path.parent)
    write_atomic(path, content)
    session.checkpoint("copied aside")
    with file_errors(path):
        if path.read_bytes() != content:
            raise StoreError(f"{path} is not what was written: the rows stay in staging")
    told = f"{many(len(page), 'row')} of staging that nobody can read copied aside"
    old = too_old(path)
    names = [file.name for file in old]
    payload: dict[str, object] = {"rows": len(page), "file": path.name, "dropped": names}
    if old:
        told += f"; {many(len(old), 'older file')} of such copies dropped"
    ids = tuple(id_ for id_, _ in page)
    session.apply(Change(Action.PURGE, "", told, RULE, payload, staged=ids))
    with file_errors(path.parent):
        for file in old:
            file.unlink(missing_ok=True)


def too_old(newest: Path, most: int = TOTAL_BYTES) -> list[Path]:
    """Return the oldest of the other files of copies, those that have no room beside it."""
    with file_errors(newest.parent):
        sizes = {file: file.stat().st_size for file in sorted(newest.parent.glob("*.jsonl"))}
    excess = sum(sizes.values()) - most
    old = []
    for file in sizes:
        if excess > 0 and file != newest:  # which is not the last where the clock was set back
            excess -= sizes[file]
            old.append(file)
    return old
