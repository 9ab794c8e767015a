"""A gate's session on one store and domain, and `apply`, the one way to change it.

Covered: two gates at once, a foreign state directory, another embedding model, a crash
between any two steps of a change, a torn index after one, a broken ledger.
Not covered: whoever else may write to a Chroma server (a proxy's matter).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lessons_loop.filter.embed import Embedder
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.schema import SCHEMA
from lessons_loop.promote.clock import utc_now
from lessons_loop.promote.decide.effects import (
    Checkpoint,
    no_checkpoint,
    settle_leftover_rebuild,
)
from lessons_loop.promote.decide.plan import (
    make_plan,
)
from lessons_loop.promote.decide.writing import GateWriter
from lessons_loop.promote.embedding.once import EmbedOnce
from lessons_loop.promote.errors import LedgerBroken
from lessons_loop.promote.records import Action, Actor, Change
from lessons_loop.promote.runs.pause import refuse_paused
from lessons_loop.promote.runs.summary import write_summary
from lessons_loop.promote.snapshot.kept import Occasion, create_snapshot
from lessons_loop.promote.state import (
    clean_domain,
    ensure_state_id,
    locate,
    refuse_older,
)
from lessons_loop.promote.store.candidates import ensure_staging
from lessons_loop.promote.store.curated import CuratedWriter, Header
from lessons_loop.promote.store.places import Clients, FolderStore, LessonStore
from lessons_loop.promote.store.publish import (
    Edition,
    calibrated_header,
    publish,
    published_is_current,
)
from lessons_loop.promote.store.replaced import refuse_lost_domains
from lessons_loop.promote.store.scratch import working_copy
from lessons_loop.promote.store.server_lock import LOCK_TERM
from lessons_loop.promote.store.server_place import CALL_SECONDS

RULE = Actor(kind="rule", name="init")


@dataclass(frozen=True)
class GateSettings:
    """Where a gate works and with what."""

    store: str
    """A folder, or a Chroma server's URL."""
    domain: str
    state: Path | None = None
    """Default: `<store>/state`; a server needs one."""
    embedder: Embedder | None = None
    """None: read, report and hold, but never promote."""
    dry_run: bool = False
    """Works on a throw-away copy: the store keeps every byte."""
    admits_older: bool = False
    """For what may look after a store of an earlier schema: init, publish, migrate."""
    despite_pause: bool = False
    """For commands that undo, or take lessons out of use: they go on while the gate is paused."""
    lock_term: float = LOCK_TERM
    """On a server: seconds after which a gate that is gone holds the lock no more."""
    call_seconds: float = CALL_SECONDS
    """On a server: limit of each step of a call."""


@contextmanager
def open_gate(
    settings: GateSettings,
    *,
    run: str | None = None,
    now: Callable[[], datetime] = utc_now,
    checkpoint: Checkpoint = no_checkpoint,
    re_embedding: bool = False,
) -> Iterator[GateSession]:
    """Open a store for one run and publish what changed at its end.

    Raises Paused, LockHeld, WrongState, EmbeddingMismatch, EmbedError, StoreError.
    `checkpoint` is called with each step's name; `re_embedding` admits another model.
    """
    domain = clean_domain(settings.domain)
    place = locate(settings.store, settings.state, settings.lock_term, settings.call_seconds)
    if not (settings.dry_run or settings.despite_pause):
        refuse_paused(place.state, os.environ)
    with working_copy(place, domain, settings.dry_run) as store:
        store.make_layout()
        with store.opened(domain, now) as clients:
            session = GateSession(domain, store, clients, settings, now, checkpoint)
            session.run = run or f"{domain}-{secrets.token_hex(4)}"
            session.start(re_embedding=re_embedding)
            try:
                yield session
            except BaseException:
                with suppress(LessonsError):  # the first error is the one to tell
                    session.finish()
                raise
            session.finish()


class GateSession(GateWriter):
    """One run's view of a domain; use `open_gate`."""

    def __init__(
        self,
        domain: str,
        store: LessonStore,
        clients: Clients,
        settings: GateSettings,
        now: Callable[[], datetime],
        checkpoint: Checkpoint,
    ) -> None:
        super().__init__(domain, store, clients, settings.embedder, now, checkpoint)
        self.dry_run = settings.dry_run
        self.admits_older = settings.admits_older
        self.created = False
        """Whether this session made the domain."""
        self.snapshot = ""
        """Name of the snapshot this session took; empty before the first write."""
        self.occasion = Occasion()
        """Why that is taken, and which older one must stay."""
        self._prepared = False

    def prepare(self) -> None:
        """Before a write: finish what is open, check the ledger, take the snapshot."""
        if self._unsettled:
            self._recover()
        if self._prepared:
            return
        if not self.admits_older:  # a dry run ends here as the run itself would
            refuse_older([self.holdings.header], self.store.title)
        if problems := self.ledger.chain_problems():
            raise LedgerBroken(f"{self.ledger.path}: {problems[0]}; run `lessons verify`")
        if not self.dry_run:
            self.snapshot = create_snapshot(self).name
        self._prepared = True

    def other_domains(self) -> list[str]:
        """Return the domains of this store where this one was none of them until now."""
        known = {header.domain for header in self.holdings.headers()} - {self.domain}
        return sorted(known) if self.created else []

    # --- beginning and end

    def start(self, *, re_embedding: bool = False) -> None:
        """Check state and model, finish an interrupted change, load curated."""
        headers = self.holdings.headers()
        refuse_lost_domains(self.ledger, self.store.title, [one.domain for one in headers])
        self._refuse_older(headers)
        self.uses.refuse_newer()
        state_id = ensure_state_id(self.state, headers)
        self._recover()
        settle_leftover_rebuild(self.clients.curated, self.domain)
        self.created = self.holdings.load(state_id, str(self.state), any_space=re_embedding)
        self.holdings.learn_model(self.embedder)
        if not re_embedding:
            self.holdings.refuse_other_model()
        if self.created or (not re_embedding and self._is_unwritten()):
            self._record_creation()

    def _refuse_older(self, headers: Sequence[Header]) -> None:
        """Raise StoreOlder before anything is written into a store of an earlier schema."""
        created = self.domain not in {header.domain for header in headers}
        if created or not (self.admits_older or self.dry_run):
            refuse_older(headers, self.store.title)

    def _is_unwritten(self) -> bool:
        """Say whether the domain's creator died before its first ledger line."""
        return self.holdings.header.head_n == 0 and not self.curated

    def _record_creation(self) -> None:
        if not isinstance(self.store, FolderStore):  # there the plugin makes its own
            ensure_staging(self.store, self.domain)
        payload: dict[str, object] = {"domain": self.domain, "schema": SCHEMA}
        change = Change(Action.INIT, self.domain, "domain created", RULE, payload)
        entry = self.entry_for(change)
        self.commit(make_plan(change, entry, self.holdings.header, {}, self._vector_of))

    def finish(self) -> None:
        """Publish when what recall reads is missing, damaged or behind."""
        self.embedding = EmbedOnce(self.embedder)  # publishing needs the room
        if not self.dry_run and not self._unsettled:
            try:
                self.publish()
            finally:  # status has to tell of lessons that could not be published
                write_summary(self)

    def publish(self, *, force: bool = False) -> None:
        """Bring what recall reads up to date: the published file, on a server the floors.

        Raises StoreError, EmbedError.
        """
        path, header = self.store.published(self.domain), self.holdings.header
        if path is None:
            current = header.calibrated_rev == header.rev
        else:
            current = published_is_current(path, header.rev, header.fingerprint)
        if current and not force:
            return
        keys, vectors = self.nearest_vectors()
        lessons = [self.curated[key] for key in keys]
        edition = Edition(self.domain, header.rev, lessons, vectors, header.fingerprint)
        embedder = self.embedder if self.holdings.is_own_model else None
        if path is None:
            self._calibrate(edition, embedder)
        else:
            publish(path, edition, embedder)
        self.checkpoint("published")

    def _calibrate(self, edition: Edition, embedder: Embedder | None) -> None:
        header = calibrated_header(self.holdings.header, edition, embedder)
        self.clients.guard()
        writer = CuratedWriter(self.holdings.collection)
        writer.set_header(header, self.clients.curated)
        self.holdings.header = header
