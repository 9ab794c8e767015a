"""The one way to change a store: decisions, one by one or many in one write.

Order: payload files, journal's draft, ledger lines, journal, archive, curated, header, staged
rows, journal cleared. A crash between any two leaves a change that is void or that the next
run completes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime

from lessons_loop.filter.embed import Embedder, Vectors
from lessons_loop.filter.errors import LessonsError, StoreError, StoreLocked
from lessons_loop.filter.models import Lesson
from lessons_loop.filter.store import first_line
from lessons_loop.promote.clock import iso
from lessons_loop.promote.decay.uses import UseRegister
from lessons_loop.promote.decide.batch import Pending, is_mergeable, merged
from lessons_loop.promote.decide.effects import Checkpoint, carry_out
from lessons_loop.promote.decide.plan import check_change, check_vectors, make_plan, next_entry
from lessons_loop.promote.embedding.once import EmbedOnce
from lessons_loop.promote.ledger.chain import Ledger, LedgerEntry, payload_file
from lessons_loop.promote.ledger.journal import Journal, Plan
from lessons_loop.promote.ledger.mend import mend
from lessons_loop.promote.records import Action, Change
from lessons_loop.promote.store.holdings import Holdings
from lessons_loop.promote.store.places import Clients, LessonStore
from lessons_loop.promote.view import GateView


class GateWriter(GateView):
    """The writing half of a session."""

    def __init__(
        self,
        domain: str,
        store: LessonStore,
        clients: Clients,
        embedder: Embedder | None,
        now: Callable[[], datetime],
        checkpoint: Checkpoint,
    ) -> None:
        super().__init__(domain, store, Holdings(clients, domain), EmbedOnce(embedder))
        self.run = ""
        self.state = store.state
        self.embedder = embedder
        self.now = now
        self.checkpoint = checkpoint
        self.clients = clients
        self.ledger = Ledger(store.state, self.holdings.heads)
        self.journal = Journal(store.state)
        self.uses = UseRegister(store.state, domain)
        """Folded usage events; changed by `apply` alone."""
        self._tail: LedgerEntry | None = None
        self._pending: Pending | None = None
        """The batch under way; None outside of one."""
        self._unsettled = False
        self._failed = ""

    @abstractmethod
    def prepare(self) -> None:
        """Before a write: finish what is open, check the ledger, take the snapshot."""

    def apply(self, change: Change) -> int:
        """Carry one decision out and return its ledger line's number.

        Raises InvalidLesson, EmbedError before anything is written; StoreError after
        which the change is either void or completed by the next run.
        """
        if self._failed:
            raise StoreError(f"an earlier change was not stored: {self._failed}; run again")
        self.prepare()
        check_change(change, self.archive.values(), self.domain)
        model = self.holdings.model
        if change.action is Action.RESTORE:  # brings its vectors along: no embedder is needed
            model = self.holdings.header.fingerprint or model
        if change.vectors is not None:
            self.holdings.refuse_other_model()
        check_vectors(change, self.curated, model)
        payload, content = payload_file(change.payload)
        entry = next_entry(change, self._tail, payload, self.domain, self.run, iso(self.now()))
        header = self.holdings.header
        keeps_vectors = change.vectors is not None or change.archive
        if keeps_vectors and not header.embedding and model is not None:
            header = header.model_copy(update={"embedding": model.model_dump_json()})
        self._store(make_plan(change, entry, header, self.curated, self._vector_of), content)
        return entry.n

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Within the block changes count at once and are stored many together.

        What was decided is stored also where the block ends by an error or Ctrl-C. A change
        whose batch could not be stored is void, and the session refuses further ones.
        """
        if self._pending is not None:
            yield
            return
        self.holdings.snapshot_matrix()  # before it holds rows the store does not have yet
        self._pending = Pending()
        try:
            yield
        except BaseException:
            with suppress(LessonsError):  # the first error is the one to tell
                self.flush()
            raise
        else:
            self.flush()
        finally:
            self._pending = None

    def flush(self) -> None:
        """Store what a batch has collected; raise StoreError that says what is stored."""
        pending = self._pending
        if pending is None or not pending.plans or self._failed:
            return
        self._pending = Pending()
        plan = merged(pending.plans)
        try:
            self._record_with(plan, pending.contents)
        except BaseException as error:
            self._unsettled = True  # what is in memory must not be published
            self.fail(first_line(error))
            if isinstance(error, StoreError):
                raise type(error)(f"{error}; {self._fate(plan)}") from None
            raise

    def _store(self, plan: Plan, content: bytes) -> None:
        if self._pending is not None and is_mergeable(plan):
            self.holdings.absorb(plan)
            self._tail = plan.entry
            self._pending.add(plan, content)
            if self._pending.full:
                self.flush()
            return
        self.flush()
        self._record_with(plan, {plan.entry.payload: content})
        self._absorb(plan)

    def _record_with(self, plan: Plan, contents: Mapping[str, bytes]) -> None:
        self.ledger.store_payloads(contents)
        self.checkpoint("payload")
        self._record(plan)

    def _fate(self, plan: Plan) -> str:
        """Say what a batch that failed leaves behind."""
        count = len(plan.entries)
        with suppress(LessonsError):
            mend(self.ledger, self.holdings.heads())
            if self.ledger.tail() == plan.entry:
                return f"the last {count} decision(s) are recorded, the next run completes them"
        return f"the last {count} decision(s) are not stored, run again to make them anew"

    def entry_for(self, change: Change) -> LedgerEntry:
        """Return the next ledger line for a change, its payload already on disk."""
        payload = self.ledger.store_payload(change.payload)
        self.checkpoint("payload")
        return next_entry(change, self._tail, payload, self.domain, self.run, iso(self.now()))

    def commit(self, plan: Plan) -> None:
        """Ledger lines, journal, effects, in this order; raise StoreError."""
        self._record(plan)
        self._absorb(plan)

    def _record(self, plan: Plan) -> None:
        self.clients.guard()
        self._unsettled = True
        self.journal.draft(plan)
        self.checkpoint("draft")
        self.ledger.append(*plan.entries)
        self.checkpoint("ledger")
        self.journal.confirm()
        self.checkpoint("journal")
        self._settle(plan)

    def fail(self, reason: str) -> None:
        """Refuse further changes: Chroma, after a failed write, may wait for itself for ever."""
        self._failed = reason

    def _settle(self, plan: Plan) -> None:
        try:
            carry_out(self.clients, self.store, plan, self.checkpoint)
        except StoreLocked:  # staging only, before anything was touched there
            raise
        except StoreError as error:
            self.fail(str(error))
            raise
        self.journal.clear()
        self.checkpoint("cleared")
        self._tail = plan.entry
        self._unsettled = False

    def _absorb(self, plan: Plan) -> None:
        if plan.domain == self.domain and self.holdings.loaded:
            self.holdings.absorb(plan)

    def _vector_of(self, lesson: Lesson) -> Vectors | None:
        stored = self.holdings.vector(lesson.key)
        return stored if stored is not None else self.embedding.known(lesson.embedded_text)

    def _recover(self) -> None:
        mend(self.ledger, self.holdings.heads())
        self._tail = self.ledger.tail()
        self._unsettled = False
        if plan := self.journal.recover(self._tail):
            self._unsettled = True
            own = plan.domain == self.domain
            with nullcontext() if own else self.clients.lock_also(plan.domain):
                self._settle(plan)
                self._absorb(plan)
