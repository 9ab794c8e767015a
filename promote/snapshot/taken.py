"""What a snapshot holds of a session: curated, archive, staging, the use register."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.models import Candidate
from lessons_loop.promote.forget.forgotten import Forgotten
from lessons_loop.promote.snapshot.rows import Event, Snapshot
from lessons_loop.promote.snapshot.tar import Manifest
from lessons_loop.promote.store.candidates import read_staged
from lessons_loop.promote.store.places import StagingPlace

if TYPE_CHECKING:
    from lessons_loop.promote.session import GateSession


class Waiting(NamedTuple):
    """A domain's staging, without rows no reader takes."""

    candidates: dict[str, Candidate]
    events: dict[str, Event]
    """Uses and ratings; tallies are no part of anything that is restored."""
    unreadable: int


def read_waiting(place: StagingPlace, domain: str) -> Waiting:
    """Read staging in one session; raise StoreLocked, StoreDamaged, StoreError."""
    staged, events = read_staged(place, domain)
    return Waiting(
        {candidate.id: candidate for candidate in staged.candidates},
        dict((*events.usages, *events.ratings)),
        staged.unreadable + len(events.unreadable),
    )


def contents_of(session: GateSession, at: str) -> Snapshot:
    """Return what a snapshot of the session's domain holds now; raise StoreError."""
    waiting = read_waiting(session.store, session.domain)
    header = session.holdings.header
    gone = Forgotten.load(session.state)  # rows that came late must not outlive the run here
    manifest = Manifest(
        at=at,
        run=session.run,
        domain=session.domain,
        purpose=session.occasion.purpose,
        header=header,
        fingerprint=header.fingerprint,
        ledger=header.head,
        parts={},
        unreadable=waiting.unreadable + len(session.unreadable_curated),
    )
    return Snapshot(
        manifest=manifest,
        curated=tuple(session.curated.values()),
        archive=tuple(session.archive.values()),
        candidates=tuple(c for c in waiting.candidates.values() if not gone.covers_candidate(c)),
        events=tuple(one for one in waiting.events.values() if not gone.covers_event(one)),
        uses=tuple(session.uses.rows()),
        vectors=known_vectors(session),
        archive_vectors=dict(zip(*session.archive_vectors(), strict=True))
        if header.fingerprint  # before the first promotion nobody knows whose they are
        else {},
    )


def known_vectors(session: GateSession) -> dict[str, Vectors]:
    """Return curated's vectors by key, none where they are lost: the texts count."""
    try:
        return dict(zip(*session.nearest_vectors(), strict=True))
    except StoreError:
        return {}
