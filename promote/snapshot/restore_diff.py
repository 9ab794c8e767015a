"""What a restore changes: pure, from what is there and what a snapshot holds.

Curated, archive and the use register become as they were. Staging gets back what it lacks:
candidates of the snapshot, candidates decided on since, and uses folded since, so that they
are judged and counted again. What came since stays, unless the restore is exact.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.models import Candidate, Curated, Record
from lessons_loop.promote.decay.uses import Use
from lessons_loop.promote.forget.forgotten import Forgotten
from lessons_loop.promote.records import Archived
from lessons_loop.promote.snapshot.rows import Event, Snapshot

SAME_VECTOR = 1e-5


class Present(NamedTuple):
    """What a domain holds now, by id."""

    curated: Mapping[str, Curated]
    unreadable: Collection[str]
    """Ids of curated rows somebody edited by hand."""
    archive: Mapping[str, Archived]
    candidates: Mapping[str, Candidate]
    events: Mapping[str, Event]
    uses: Mapping[str, Use]
    vectors: Mapping[str, Vectors]


class Elsewhere(NamedTuple):
    """What the other snapshots know of candidates."""

    decided: Collection[str]
    """Ids that were in staging before the snapshot and were decided on by then."""
    later: Mapping[str, Candidate]
    """Those that came after it, decided on since or not."""


NOWHERE = Elsewhere((), {})


class Difference(NamedTuple):
    """What has to change so that a domain is as its snapshot says."""

    put: tuple[Curated, ...] = ()
    """Curated rows that come back or change."""
    remove: tuple[str, ...] = ()
    archive: tuple[Archived, ...] = ()
    unarchive: tuple[str, ...] = ()
    stage: tuple[Candidate, ...] = ()
    unstage: tuple[str, ...] = ()
    stage_events: tuple[Record, ...] = ()
    unstage_events: tuple[str, ...] = ()
    uses: tuple[Use, ...] = ()
    drop_uses: tuple[str, ...] = ()
    same_vectors: frozenset[str] = frozenset()
    """Keys of `put` whose stored vector is the snapshot's, or all there is."""

    @property
    def empty(self) -> bool:
        """Whether everything is as it was."""
        return not any(self[:-1])


class Target(NamedTuple):
    """A snapshot's rows by id, without what was forgotten since it was taken."""

    curated: dict[str, Curated]
    archive: dict[str, Archived]
    candidates: dict[str, Candidate]
    events: dict[str, Event]
    uses: dict[str, Use]


def target_of(snapshot: Snapshot, forgotten: Forgotten, present: Present) -> Target:
    """Return what a domain shall hold."""
    archive = {row.id: forgotten.cleaned(row) for row in snapshot.archive}
    for row in present.archive.values():  # where a forgotten lesson is held, it stays held
        if forgotten.covers_key(row.lesson.key):
            archive.setdefault(row.id, row)
    seen = {found.id for row in archive.values() for found in row.all_sightings}
    return Target(
        curated={
            row.key: row
            for row in snapshot.curated
            if not forgotten.covers_key(row.key, row.verdict_ref)
        },
        archive=archive,
        candidates={
            found.id: found
            for found in snapshot.candidates
            if found.id not in seen and not forgotten.covers_candidate(found)
        },
        events={found.id: found for found in snapshot.events if not forgotten.covers_event(found)},
        uses={found.id: found for found in snapshot.uses if not forgotten.covers_event(found)},
    )


def difference(
    present: Present,
    target: Target,
    vectors: Mapping[str, Vectors],
    elsewhere: Elsewhere = NOWHERE,
    *,
    exact: bool = False,
) -> Difference:
    """Return what has to change; `vectors` are the snapshot's, by lesson key."""
    put = {k: row for k, row in target.curated.items() if _differs(k, row, present, vectors)}
    stage, unstage = _staging(present, target, elsewhere, exact)
    folded = {} if exact else _folded_since(present, target)
    back = {id_: found.to_record() for id_, found in target.events.items()}
    events = {id_: row for id_, row in (folded | back).items() if id_ not in present.events}
    return Difference(
        put=tuple(put.values()),
        remove=_missing(present.curated, target.curated),
        archive=tuple(
            row for id_, row in target.archive.items() if present.archive.get(id_) != row
        ),
        unarchive=_missing(present.archive, target.archive),
        stage=stage,
        unstage=unstage,
        stage_events=tuple(events.values()),
        unstage_events=_missing(present.events, target.events) if exact else (),
        uses=tuple(row for id_, row in target.uses.items() if present.uses.get(id_) != row),
        drop_uses=_missing(present.uses, target.uses),
        same_vectors=frozenset(
            k for k, row in put.items() if _is_same_vector(k, row, present, vectors)
        ),
    )


def plain(row: Curated) -> Curated:
    """Return a curated row without what every change counts up."""
    return row.model_copy(update={"rev": 0})


def same_vector(one: Vectors, other: Vectors) -> bool:
    """Say whether two unit rows are the same: Chroma gives back some of them 1e-8 off."""
    return one.shape == other.shape and float(np.abs(one - other).max(initial=0.0)) < SAME_VECTOR


def _missing(there: Iterable[str], wanted: Collection[str]) -> tuple[str, ...]:
    return tuple(id_ for id_ in there if id_ not in wanted)


def _differs(key: str, row: Curated, present: Present, vectors: Mapping[str, Vectors]) -> bool:
    now = present.curated.get(key)
    if now is None or plain(now) != plain(row):
        return True
    known, stored = vectors.get(key), present.vectors.get(key)
    return known is not None and (stored is None or not same_vector(known, stored))


def _is_same_vector(
    key: str, row: Curated, present: Present, vectors: Mapping[str, Vectors]
) -> bool:
    """Say whether Chroma may keep the row's text and vector: only its fields change."""
    now, stored = present.curated.get(key), present.vectors.get(key)
    if now is None or stored is None or now.lesson.embedded_text != row.lesson.embedded_text:
        return False
    known = vectors.get(key)
    return known is None or same_vector(known, stored)


def _staging(
    present: Present, target: Target, elsewhere: Elsewhere, exact: bool
) -> tuple[tuple[Candidate, ...], tuple[str, ...]]:
    if exact:
        wanted = target.candidates
        return _lacking(wanted, present), _missing(present.candidates, wanted)
    decided = set(elsewhere.decided)
    decided |= {seen.id for row in target.archive.values() for seen in row.all_sightings}
    decided -= set(target.candidates)
    later = dict(elsewhere.later)
    for row in present.archive.values():
        later |= {seen.id: seen for seen in row.all_sightings}
    since = {id_: found for id_, found in later.items() if id_ not in decided}
    gone = tuple(id_ for id_ in present.candidates if id_ in decided)
    return _lacking(since | target.candidates, present), gone


def _lacking(wanted: Mapping[str, Candidate], present: Present) -> tuple[Candidate, ...]:
    return tuple(found for id_, found in wanted.items() if id_ not in present.candidates)


def _folded_since(present: Present, target: Target) -> dict[str, Record]:
    """Return the events of uses, and of thumbs on them, that were counted since."""
    return {
        record.id: record
        for id_, use in present.uses.items()
        if target.uses.get(id_) != use
        for record in use.to_events()
    }
