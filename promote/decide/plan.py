"""From a decision to absolute new values: pure, so that a replay is the same change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

from lessons_loop.filter.embed import Fingerprint, Vectors
from lessons_loop.filter.errors import EmbedError, InvalidLesson, StoreError
from lessons_loop.filter.models import Curated, Lesson, Status
from lessons_loop.filter.text import scrub
from lessons_loop.promote.embedding.forms import NO_EMBEDDER
from lessons_loop.promote.ledger.chain import FIRST_PREV, LedgerEntry
from lessons_loop.promote.ledger.journal import Plan
from lessons_loop.promote.records import Action, Actor, Archived, Change
from lessons_loop.promote.store.archive import archive_row
from lessons_loop.promote.store.curated import Header
from lessons_loop.promote.store.rows import Row, pack

COUNTING = (Action.FOLD, Action.RE_EMBED, Action.FORGET, Action.PROVE)
"""Actions that decide nothing about a lesson: its verdict_ref stays."""
UNARCHIVING = (Action.RESTORE, Action.PURGE, Action.FORGET)
"""Actions that may take rows out of the archive; their payload says which."""
UNKEPT = (Action.RESTORE, Action.FORGET)
"""Actions that may take a lesson out of curated without keeping it in the archive."""
OUT_OF_USE = (Status.HELD, Status.REJECTED, Status.STALE, Status.SUPERSEDED)

VectorOf = Callable[[Lesson], Vectors | None]


def next_entry(
    change: Change, tail: LedgerEntry | None, payload: str, domain: str, run: str, at: str
) -> LedgerEntry:
    """Return the sealed ledger line that follows `tail`; `payload` is its sha256."""
    words = {name: scrub(value) for name, value in change.actor.model_dump().items()}
    return LedgerEntry(
        n=tail.n + 1 if tail else 1,
        at=at,
        run=scrub(run),
        action=change.action,
        domain=domain,
        key=scrub(change.key),
        actor=Actor(**words),
        reason=scrub(change.reason),
        payload=payload,
        prev=tail.hash if tail else FIRST_PREV,
    ).sealed()


def check_change(change: Change, archive: Iterable[Archived], domain: str) -> None:
    """Raise InvalidLesson or StoreError when carrying the change out would lose something."""
    lessons = [row.lesson for row in change.put] + [row.lesson for row in change.archive]
    if strangers := {lesson.domain for lesson in lessons} - {domain}:
        raise InvalidLesson(f"domain: {', '.join(sorted(strangers))} in a gate of {domain}")
    put = {row.key for row in change.put}
    if len(put) != len(change.put):
        raise InvalidLesson("put: names a lesson twice")
    if bad := [row.status.value for row in change.archive if row.status not in OUT_OF_USE]:
        raise InvalidLesson(f"archive: status {bad[0]} is none of the archive's")
    if change.unarchive and change.action not in UNARCHIVING:
        raise StoreError(f"{change.action.value} would take {len(change.unarchive)} archived rows")
    kept = {row.lesson.key for row in (*change.archive, *archive)} if change.remove else set()
    for key in change.remove:
        if key not in kept and change.action not in UNKEPT:
            raise StoreError(
                f"lesson {key[:12]} would leave curated without standing in the archive"
            )
        if key in put:
            raise StoreError(f"lesson {key[:12]} would be put and removed at once")


def check_vectors(
    change: Change, curated: Mapping[str, Curated], model: Fingerprint | None
) -> None:
    """Raise EmbedError unless every new lesson comes with a vector of the gate's model."""
    if change.vectors is None:
        if new := [row.key for row in change.put if row.key not in curated]:
            raise EmbedError(f"lesson {new[0][:12]} is new and comes without a vector")
        return
    if model is None:
        raise EmbedError(NO_EMBEDDER)
    shape = (len(change.put), model.dimension)
    if change.vectors.shape != shape:
        raise EmbedError(f"vectors have shape {change.vectors.shape}, wanted {shape}")
    if not np.allclose(np.linalg.norm(change.vectors, axis=1), 1.0, atol=1e-3):
        raise EmbedError("vectors are not unit rows")


def make_plan(
    change: Change,
    entry: LedgerEntry,
    header: Header,
    curated: Mapping[str, Curated],
    vector_of: VectorOf,
) -> Plan:
    """Return the values the store shall have afterwards; `header` is the present one."""
    rev = header.rev + (1 if change.put or change.remove else 0)
    put = [_settled(row, curated.get(row.key), entry, rev) for row in change.put]
    archive = [
        row if _keeps_its_line(entry, row) else row.model_copy(update={"ledger_ref": entry.n})
        for row in change.archive
    ]
    return Plan(
        entries=(entry,),
        header=header.model_copy(update={"rev": rev, "head_n": entry.n, "head_hash": entry.hash}),
        put=tuple(_put_rows(put, change.vectors, change.same_vectors)),
        remove=change.remove,
        archive=tuple(
            archive_row(row, vector_of(row.lesson), header.generation) for row in archive
        ),
        staged=change.staged,
        events=change.events,
        unarchive=change.unarchive,
        stage=tuple(Row.of(record) for record in change.stage),
        stage_events=tuple(Row.of(record) for record in change.stage_events),
        uses=change.uses,
        drop_uses=change.drop_uses,
    )


def _keeps_its_line(entry: LedgerEntry, row: Archived) -> bool:
    """Say whether an archived row is no new decision: restored, or only rid of sightings."""
    rid = entry.action is Action.FORGET and row.ledger_ref > 0
    return rid or entry.action is Action.RESTORE


def _settled(row: Curated, old: Curated | None, entry: LedgerEntry, rev: int) -> Curated:
    if entry.action is Action.RESTORE:  # as it was, references included
        return row.model_copy(update={"rev": rev})
    counts = entry.action in COUNTING and old is not None
    lesson = row.lesson.model_copy(update={"status": Status.CURATED})
    return row.model_copy(
        update={
            "lesson": lesson,
            "ledger_ref": old.ledger_ref if old else entry.n,
            "verdict_ref": old.verdict_ref if counts and old else entry.n,
            "rev": rev,
        }
    )


def _put_rows(
    put: Sequence[Curated], vectors: Vectors | None, same: Collection[str] = ()
) -> list[Row]:
    if vectors is None:
        return [Row.of(row.to_record()) for row in put]
    return [
        Row.of(row.to_record(), None if row.key in same else pack(vector))
        for row, vector in zip(put, vectors, strict=True)
    ]


def open_holds(curated: Mapping[str, Curated], archive: Iterable[Archived]) -> list[Archived]:
    """Return held lessons that are neither curated nor decided on later, oldest first."""
    rows = sorted(archive, key=lambda row: row.ledger_ref)
    latest = {row.lesson.key: row for row in rows}
    return [
        row
        for row in rows
        if row.status is Status.HELD
        and latest[row.lesson.key] is row
        and row.lesson.key not in curated
    ]
