"""Forget a user or a chat: every trace goes, what it alone stood for waits for a person.

Order, so that a run killed anywhere is finished by the next one: tombstone, spool, per
domain one change (candidates, events, uses, archived quotes and references, lessons to
held), payload files, snapshots, files of crashes, last the Chroma folders themselves.

Covered: every byte under the store folder and the state directory.
Not covered: the ledger's own lines (keys and reasons, masked when written); Open WebUI's
chats; on a server its files and backups; copies somebody made; exports (they name nobody).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from lessons_loop.filter.models import Status
from lessons_loop.filter.store import file_lock
from lessons_loop.promote.clock import iso, utc_now
from lessons_loop.promote.decide.effects import Checkpoint, no_checkpoint
from lessons_loop.promote.entry import login_name
from lessons_loop.promote.forget.evaluations import evaluations
from lessons_loop.promote.forget.files import (
    copies_aside,
    delete_payloads,
    forget_thumbs,
    forget_under_way,
    loose_files,
    remove,
    spool_files,
    wreckage,
)
from lessons_loop.promote.forget.forgotten import Forgotten, append_tombstone
from lessons_loop.promote.forget.snapshots import clean_snapshots
from lessons_loop.promote.forget.subject import Subject, domains_with_traces, subject
from lessons_loop.promote.forget.survey import Traces, stone_of, survey
from lessons_loop.promote.records import Action, Actor, Archived, Change
from lessons_loop.promote.session import GateSession, GateSettings, open_gate
from lessons_loop.promote.state import Located, existing_store, locate
from lessons_loop.promote.store.compact import compact
from lessons_loop.promote.store.lock import borrowed_lock, gate_lock
from lessons_loop.promote.store.places import STAGING_SECONDS, FolderStore

REASON = "what it rested on was forgotten: decide on it anew"


@dataclass
class ForgetReport:
    """What was found, and is gone unless it was a dry run."""

    what: str
    dry_run: bool
    candidates: int = 0
    events: int = 0
    uses: int = 0
    archived_cleaned: int = 0
    archived_removed: int = 0
    held: list[str] = field(default_factory=list)
    """Keys of curated lessons that wait for a person now."""
    corrected: int = 0
    """Curated lessons that stay, with lower counters."""
    payloads: int = 0
    snapshots: int = 0
    evaluations: int = 0
    """Recorded evaluations that showed a model what is forgotten."""
    files: int = 0
    """Spool files, drafts, torn lines, copies of rows nobody can read."""
    wreckage: int = 0
    """Folders and files kept after crashes."""
    remains: str = ""
    """What is beyond this command's reach."""

    @property
    def nothing(self) -> bool:
        """Whether no trace was found."""
        return not any(
            value
            for name, value in asdict(self).items()
            if isinstance(value, int | list) and name != "dry_run"
        )

    def add(self, traces: Traces) -> None:
        """Count one domain's traces."""
        self.candidates += len(traces.candidates)
        self.events += len(traces.events)
        self.uses += len(traces.uses)
        self.archived_cleaned += len(traces.cleaned)
        self.archived_removed += len(traces.dropped)
        self.held += [row.key for row in traces.to_hold]
        self.corrected += len(traces.corrected)
        self.payloads += len(traces.payloads)


def forget(
    settings: GateSettings,
    what: str,
    identity: str,
    *,
    now: Callable[[], datetime] = utc_now,
    checkpoint: Checkpoint = no_checkpoint,
) -> ForgetReport:
    """Forget one user or chat, by Open WebUI's id, in all domains of a store.

    Running it again changes nothing but the moment up to which a user is covered. Raises
    LessonsError, LockHeld, StoreError. `settings.domain` is not looked at.
    """
    existing_store(settings.store)
    place = locate(settings.store, settings.state, settings.lock_term, settings.call_seconds)
    whom = subject(place, what, identity)
    report, needles = ForgetReport(what, settings.dry_run), {whom.ref}
    _forget_files(spool_files(place, needles), report)
    for domain in domains_with_traces(place):
        with _session(settings, domain, now, checkpoint) as session:
            _forget_domain(session, place.state, whom, report, needles)
    with _locked(place, now, dry_run=settings.dry_run):
        known = Forgotten.load(place.state)
        if settings.dry_run:
            known = Forgotten([*known.stones, stone_of(whom, iso(now()), needles)])
        report.snapshots = clean_snapshots(place.state, known, dry_run=settings.dry_run)
        checkpoint("snapshots")
        _forget_files(copies_aside(place, needles), report)
        if not settings.dry_run:  # what came meanwhile
            _forget_files(spool_files(place, needles), report)
            _forget_files(loose_files(place, needles), report)
            forget_thumbs(place, needles)
            forget_under_way(place, needles)
        left = wreckage(place)
        report.wreckage = len(left)
        if not settings.dry_run:
            remove(left)
            checkpoint("files")
            _compact(place)
            done = stone_of(whom, iso(now())).model_copy(update={"finished": True})
            append_tombstone(place.state, done)
    report.remains = _beyond(place)
    return report


@contextmanager
def _session(
    settings: GateSettings, domain: str, now: Callable[[], datetime], checkpoint: Checkpoint
) -> Iterator[GateSession]:
    chosen = GateSettings(
        settings.store,
        domain,
        settings.state,
        dry_run=settings.dry_run,
        despite_pause=True,
        lock_term=settings.lock_term,
        call_seconds=settings.call_seconds,
    )
    with open_gate(chosen, now=now, checkpoint=checkpoint) as session:
        yield session


def _locked(place: Located, now: Callable[[], datetime], *, dry_run: bool) -> Any:
    lock = place.paths.gate_lock if isinstance(place, FolderStore) else place.state_lock
    return borrowed_lock(lock) if dry_run else gate_lock(lock, now)


def _forget_domain(
    session: GateSession, state: Path, whom: Subject, report: ForgetReport, needles: set[str]
) -> None:
    at = iso(session.now())
    append_tombstone(session.state, stone_of(whom, at))  # of a dry run: in the copy
    session.checkpoint("tombstone")
    traces = survey(session, whom, Forgotten.load(session.state))
    needles |= traces.messages
    report.add(traces)
    shown = evaluations(state, traces.texts)  # before their texts are gone
    report.evaluations += len(shown) if session.dry_run else remove(shown)
    if session.dry_run or not traces:
        return
    tail = session.ledger.tail()
    line = (tail.n if tail else 0) + 1
    stone = stone_of(whom, at, traces.messages).model_copy(
        update={
            "keys": {row.key: line for row in traces.to_hold},
            "payloads": tuple(traces.payloads),
            "archived": tuple(row.id for row in traces.dropped),
        }
    )
    append_tombstone(session.state, stone)
    session.apply(_change(whom, traces, at))
    delete_payloads(session.state, traces.payloads)
    session.checkpoint("payloads deleted")


def _change(whom: Subject, traces: Traces, at: str) -> Change:
    held = [
        Archived(
            lesson=row.lesson.model_copy(update={"status": Status.HELD}),
            reason=f"forget: {REASON}",
            at=at,
            curated=row,
        )
        for row in traces.to_hold
    ]
    taken = {row.id for row in held}
    counts = {
        "candidates": len(traces.candidates),
        "events": len(traces.events),
        "uses": len(traces.uses),
        "archived": len(traces.cleaned) + len(traces.dropped),
        "held": [row.key for row in traces.to_hold],
        "corrected": [row.key for row in traces.corrected],
    }
    return Change(
        action=Action.FORGET,
        key="",
        reason=f"a {whom.what} was forgotten",
        actor=Actor(kind="human", name=login_name()),
        payload={"what": whom.what, "removed": counts, "remains": traces.remains},
        put=tuple(traces.corrected),
        remove=tuple(row.key for row in traces.to_hold),
        archive=(*(row for row in traces.cleaned if row.id not in taken), *held),
        unarchive=tuple(row.id for row in traces.dropped if row.id not in taken),
        staged=tuple(traces.candidates),
        events=tuple(traces.events),
        drop_uses=tuple(use.id for use in traces.uses),
    )


def _forget_files(found: list[Path], report: ForgetReport) -> None:
    report.files += len(found) if report.dry_run else remove(found)


def _compact(place: Located) -> None:
    if not isinstance(place, FolderStore):
        return
    with file_lock(place.paths.staging_lock, STAGING_SECONDS):
        compact(place.paths.staging)
    compact(place.paths.gate)


def _beyond(place: Located) -> str:
    kept = "Open WebUI's own chats, and backups of this store"
    if isinstance(place, FolderStore):
        return f"not touched: {kept}"
    return (
        f"not touched: {kept}; the server keeps deleted rows in its files until "
        "`chroma vacuum --path FOLDER` is run there; records that wait in the plugin's spool "
        "are dropped when they arrive"
    )
