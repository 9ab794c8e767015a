"""Take a store to another schema, and back: through the gate's one write path.

Per domain and step one ledger line, one journal: snapshot, line, rows, header. It is an `init`
line, as all that lays a domain out is: a gate of schema 1 stops at an action it does not know.
What a step back drops stands in that line's payload, and the step forward puts it in again.

Covered: kill -9 at any moment (run it again), a plugin and another gate at work, an unfinished
change of the release before. Not covered: rows no reader takes, which stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from lessons_loop.filter.errors import InvalidLesson, StoreError
from lessons_loop.filter.models import Curated, Record
from lessons_loop.filter.schema import MARK_FIELD, SCHEMA
from lessons_loop.filter.store import collection_names
from lessons_loop.promote.clock import utc_now
from lessons_loop.promote.decay.uses import UseRegister
from lessons_loop.promote.decide.effects import Checkpoint, no_checkpoint
from lessons_loop.promote.entry import login_name
from lessons_loop.promote.ledger.journal import Plan
from lessons_loop.promote.records import Action, Actor, Archived, Change
from lessons_loop.promote.session import GateSession, GateSettings, open_gate
from lessons_loop.promote.state import existing_store, locate, mark_state
from lessons_loop.promote.store.archive import archive_row
from lessons_loop.promote.store.holdings import Holdings
from lessons_loop.promote.store.places import FolderStore
from lessons_loop.promote.store.rows import Row, chroma_errors, find_collection, read_rows
from lessons_loop.promote.store.schema import Kept, Step, way
from lessons_loop.promote.store.scratch import working_copy
from lessons_loop.promote.store.server_place import ServerStore

if TYPE_CHECKING:
    from chromadb.api import ClientAPI


@dataclass
class Moved:
    """What became of one domain."""

    domain: str
    before: int
    after: int
    curated: int = 0
    archived: int = 0
    """Rows that were written anew."""
    kept: int = 0
    """Values a step back dropped, or a step forward put in again."""
    unread: dict[str, int] = field(default_factory=dict)
    """Ledger lines, by action, at which a gate of the schema gone back to stops."""
    snapshot: str = ""

    @property
    def line(self) -> str:
        """Return it for people."""
        if self.before == self.after:
            return f"{self.domain}: has schema {self.after}, nothing to do"
        rows = f"{self.curated} curated and {self.archived} archived lessons written anew"
        told = f"{self.domain}: schema {self.before} → {self.after}, {rows}"
        if not self.kept:
            return told
        word = "put in again" if self.after > self.before else "kept in the ledger"
        return f"{told}, {self.kept} proofs and seals {word}"


@dataclass(frozen=True)
class Wish:
    """What to do."""

    store: str
    state: Path | None = None
    to: int = SCHEMA
    dry_run: bool = False

    def settings(self, domain: str) -> GateSettings:
        """Return the settings of one domain's session."""
        return GateSettings(
            self.store,
            domain,
            self.state,
            dry_run=self.dry_run,
            admits_older=True,
            despite_pause=True,  # it decides on no lesson, and going back undoes
        )


def migrate_store(
    wish: Wish, *, now: Callable[[], datetime] = utc_now, checkpoint: Checkpoint = no_checkpoint
) -> list[Moved]:
    """Take every domain to the schema wished for; raise NoSuchSchema, LockHeld, StoreError."""
    way(wish.to, wish.to)
    existing_store(wish.store)
    place = locate(wish.store, wish.state)
    domains = domains_of(place)
    if not domains:
        raise StoreError(f"lesson store {place.title} has no domain: run `lessons init`")
    if wish.to == SCHEMA and not wish.dry_run:  # first: an earlier release shall see it
        mark_state(place.state, SCHEMA)
    found = []
    for domain in domains:
        with open_gate(wish.settings(domain), now=now, checkpoint=checkpoint) as session:
            found.append(migrate_domain(session, wish.to))
            mark(session, wish.to)
    if not wish.dry_run:
        mark_state(place.state, wish.to)
    return found


def domains_of(place: FolderStore | ServerStore) -> list[str]:
    """Return the domains of a store, read from a copy; raise StoreError."""
    if isinstance(place, ServerStore):
        return place.domains()
    with working_copy(place, "", True) as copy, copy.opened("", utc_now) as clients:
        return sorted({header.domain for header in Holdings(clients, "").headers()})


def migrate_domain(session: GateSession, to: int) -> Moved:
    """Take one domain there, a step at a time; raise StoreError."""
    have = session.holdings.header.schema_version
    moved = Moved(session.domain, have, to)
    for step, number in way(have, to):
        _take(session, step, number, moved)
    moved.snapshot = session.snapshot
    return moved


def mark(session: GateSession, schema: int) -> None:
    """Let everything beside curated name the schema too: for releases to come."""
    names = collection_names(session.domain)
    session.clients.guard()
    _mark(session.clients.gate, [names["archive"]], schema)
    with session.store.staging() as client:
        if client is not None:
            _mark(client, [names["candidates"], names["events"]], schema)
    UseRegister(session.state, session.domain).mark(schema)


def _mark(client: ClientAPI, names: Iterable[str], schema: int) -> None:
    """Let the collections there are say which schema their rows have."""
    for name in names:
        found = find_collection(client, name)
        if found is not None and found.metadata != {MARK_FIELD: schema}:
            with chroma_errors(name):
                found.modify(metadata={MARK_FIELD: schema})


def _take(session: GateSession, step: Step, number: int, moved: Moved) -> None:
    session.prepare()
    forward = number == step.to
    kept = _kept(session, step) if forward else Kept()
    curated = list(_curated(session, step, kept, forward=forward))
    archive = list(_archived(session, step, kept, forward=forward))
    moved.curated, moved.archived = moved.curated + len(curated), moved.archived + len(archive)
    moved.kept += len(kept.proofs) + len(kept.seals)
    if not forward:
        lines = Counter(entry.action for entry in session.ledger.entries())
        moved.unread |= {str(word): lines[word] for word in step.actions if lines[word]}
    change = _change(session.domain, step, number, kept)
    entry, header = session.entry_for(change), session.holdings.header
    fields = {"schema_version": number, "head_n": entry.n, "head_hash": entry.hash}
    fields["rev"] = header.rev + 1  # recall reads them anew
    fresh = header.model_copy(update=fields)
    session.commit(Plan(entries=(entry,), header=fresh, put=tuple(curated), archive=tuple(archive)))


def _change(domain: str, step: Step, number: int, kept: Kept) -> Change:
    start = step.to - 1 if number == step.to else step.to
    return Change(
        action=Action.INIT,
        key=domain,
        reason=_told(start, number),
        actor=Actor(kind="human", name=login_name()),
        payload={
            "domain": domain,
            "schema": number,
            "schema_before": start,
            **({"kept": kept.model_dump()} if number < start else {}),
        },
    )


def _kept(session: GateSession, step: Step) -> Kept:
    """Return what the last step back over the same step took out; nothing where it is forgotten."""
    told = _told(step.to, step.to - 1)
    for entry in reversed(session.ledger.entries()):
        if (entry.domain, entry.action, entry.reason) == (session.domain, Action.INIT, told):
            payload = session.ledger.payload(entry) or {}
            try:
                return Kept.model_validate(payload.get("kept", {}))
            except ValidationError:
                break
    return Kept()


def _told(start: int, end: int) -> str:
    return f"migrated from schema {start} to {end}"


def _curated(session: GateSession, step: Step, kept: Kept, *, forward: bool) -> Iterator[Row]:
    """Yield the curated rows that become others; what no reader takes stays."""
    for record in _stored(session.holdings.collection):
        if record.id not in session.curated:
            continue
        row = step.curated(Curated.from_record(record), kept, forward=forward)
        if (fresh := row.to_record()) != record:
            yield Row.of(fresh)


def _archived(session: GateSession, step: Step, kept: Kept, *, forward: bool) -> Iterator[Row]:
    header = session.holdings.header
    vectors = dict(zip(*session.archive_vectors(), strict=True))
    name = collection_names(session.domain)["archive"]
    for record in _stored(find_collection(session.clients.gate, name)):
        try:
            row = step.archived(Archived.from_record(record), kept, forward=forward)
        except InvalidLesson:
            continue
        if row.to_record().metadata["archived"] != record.metadata["archived"]:
            yield archive_row(row, vectors.get(record.id), header.generation)


def _stored(collection: Any) -> Iterator[Record]:
    for page in read_rows(collection):
        for id_, document, metadata in zip(*page, strict=True):
            yield Record(id_, document, dict(metadata or {}))
