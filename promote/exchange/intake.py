"""Take lessons in from a trusted file: the seed loader's way through the gate's write path.

Per lesson: new, changed under its id (the old one is superseded), unchanged, or skipped
because somebody decided otherwise since: it was retired, or its curated row was changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.models import Curated, Lesson, Status
from lessons_loop.promote.clock import iso
from lessons_loop.promote.decay.harmful import measured_harm
from lessons_loop.promote.forget.forgotten import Forgotten
from lessons_loop.promote.ledger.chain import LedgerEntry
from lessons_loop.promote.records import Action, Actor, Archived, Change
from lessons_loop.promote.session import GateSession

FORGOTTEN = "forgotten: the chats it came from were forgotten"
PayloadOf = Callable[[LedgerEntry], dict[str, Any] | None]


class IntakeOutcome(StrEnum):
    """What became of one offered lesson."""

    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    SKIPPED = "skipped"


class IntakeNote(NamedTuple):
    """One offered lesson and what became of it."""

    seed_id: str
    outcome: IntakeOutcome
    reason: str


@dataclass(frozen=True)
class IntakeReport:
    """Counts that add up to the lessons offered, and a note on each."""

    added: int
    changed: int
    unchanged: int
    skipped: int
    notes: tuple[IntakeNote, ...] = ()


class _Step(NamedTuple):
    seed_id: str
    lesson: Lesson
    outcome: IntakeOutcome
    reason: str
    old: Curated | None = None
    """The curated row it replaces or renews."""


def take_in(
    session: GateSession,
    lessons: Sequence[tuple[Lesson, str]],
    actor: Actor,
    force: bool = False,
) -> IntakeReport:
    """Offer lessons with their ids; raise EmbedError before anything is written.

    `force` also takes in what would be skipped.
    """
    steps = list(_Intake(session, force).steps(lessons))
    wanted = [
        step for step in steps if step.outcome in (IntakeOutcome.ADDED, IntakeOutcome.CHANGED)
    ]
    if wanted:
        vectors = session.embed([step.lesson.embedded_text for step in wanted])
        with session.batch():
            for place, step in enumerate(wanted):
                session.apply(_change(step, actor, vectors[place : place + 1], iso(session.now())))
    counts = Counter(step.outcome for step in steps)
    return IntakeReport(
        added=counts[IntakeOutcome.ADDED],
        changed=counts[IntakeOutcome.CHANGED],
        unchanged=counts[IntakeOutcome.UNCHANGED],
        skipped=counts[IntakeOutcome.SKIPPED],
        notes=tuple(IntakeNote(step.seed_id, step.outcome, step.reason) for step in steps),
    )


class _Intake:
    """Decides on each offered lesson as if those before it were already in."""

    def __init__(self, session: GateSession, force: bool) -> None:
        self.curated = dict(session.curated)
        self.unreadable = session.unreadable_curated
        self.archive = session.archive
        self.ledger = session.ledger
        self.lines = {entry.n: entry for entry in session.ledger.entries()}
        self.force = force
        self.forgotten = Forgotten.load(session.state)

    def steps(self, lessons: Sequence[tuple[Lesson, str]]) -> Iterator[_Step]:
        """Yield one step per lesson, in order."""
        for lesson, seed_id in lessons:
            mine = next((row for row in self.curated.values() if row.seed_id == seed_id), None)
            step = self._renewed(lesson, seed_id, mine) if mine else self._new(lesson, seed_id)
            if step.outcome in (IntakeOutcome.ADDED, IntakeOutcome.CHANGED):
                if mine:
                    self.curated.pop(mine.key, None)
                self.curated[lesson.key] = Curated(lesson=lesson, since="-", seed_id=seed_id)
            yield step

    def _renewed(self, lesson: Lesson, seed_id: str, mine: Curated) -> _Step:
        """Decide on a lesson whose id is curated already."""
        if same_content(mine.lesson, lesson):
            return _Step(seed_id, lesson, IntakeOutcome.UNCHANGED, "")
        if changed_since(mine, self.lines, self.ledger.payload):
            reason = "conflict: the curated lesson was changed since it was loaded"
            return self._doubtful(lesson, seed_id, IntakeOutcome.CHANGED, reason, mine)
        if lesson.key != mine.key and lesson.key in self.curated:
            return _Step(seed_id, lesson, IntakeOutcome.SKIPPED, "its text is curated already")
        if lesson.key != mine.key and (gone := self._retired(lesson, seed_id)):
            reason = f"retired: it is {gone.value}"
            return self._doubtful(lesson, seed_id, IntakeOutcome.CHANGED, reason, mine)
        if lesson.key != mine.key and self.forgotten.covers_key(lesson.key):
            return self._doubtful(lesson, seed_id, IntakeOutcome.CHANGED, FORGOTTEN, mine)
        return _Step(seed_id, lesson, IntakeOutcome.CHANGED, "", mine)

    def _new(self, lesson: Lesson, seed_id: str) -> _Step:
        """Decide on a lesson whose id is not curated."""
        if lesson.key in self.unreadable:
            reason = "conflict: its curated row was changed by hand and cannot be read"
            return self._doubtful(lesson, seed_id, IntakeOutcome.CHANGED, reason)
        if same := self.curated.get(lesson.key):
            if same_content(same.lesson, lesson, source=False):
                reason = f"its text is curated already, from {same.lesson.source}"
                return _Step(seed_id, lesson, IntakeOutcome.UNCHANGED, reason)
            reason = f"conflict: curated from {same.lesson.source} with other fields"
            return self._doubtful(lesson, seed_id, IntakeOutcome.CHANGED, reason, same)
        if gone := self._retired(lesson, ""):
            reason = f"retired: it is {gone.value}"
            return self._doubtful(lesson, seed_id, IntakeOutcome.ADDED, reason)
        if self.forgotten.covers_key(lesson.key):
            return self._doubtful(lesson, seed_id, IntakeOutcome.ADDED, FORGOTTEN)
        return _Step(seed_id, lesson, IntakeOutcome.ADDED, "")

    def _doubtful(
        self,
        lesson: Lesson,
        seed_id: str,
        forced: IntakeOutcome,
        reason: str,
        old: Curated | None = None,
    ) -> _Step:
        if self.force:
            return _Step(seed_id, lesson, forced, f"forced; {reason}", old)
        return _Step(seed_id, lesson, IntakeOutcome.SKIPPED, reason)

    def _retired(self, lesson: Lesson, seed_id: str) -> Status | None:
        """Return why the lesson is out of use; a seed may go back to its own earlier text."""
        for status in (Status.REJECTED, Status.STALE, Status.SUPERSEDED):
            row = self.archive.get(f"{lesson.key}-{status.value}")
            own = row is not None and row.curated is not None and row.curated.seed_id == seed_id
            if row is not None and not (seed_id and own and status is Status.SUPERSEDED):
                return status
        held = self.archive.get(f"{lesson.key}-{Status.HELD.value}")
        return Status.HELD if measured_harm(held) else None


def same_content(one: Lesson, other: Lesson, *, source: bool = True) -> bool:
    """Say whether two lessons agree in everything but status."""
    ignored = {"status"} if source else {"status", "source"}
    return one.model_dump(exclude=ignored) == other.model_dump(exclude=ignored)


def changed_since(row: Curated, lines: Mapping[int, LedgerEntry], payload_of: PayloadOf) -> bool:
    """Say whether a curated row is no longer what the loader put there."""
    entry = lines.get(row.verdict_ref)
    if entry is None or entry.action is not Action.SEED:
        return True
    payload = payload_of(entry)
    if payload is None:  # forgotten: nothing to compare with
        return False
    known = Lesson.model_validate(payload["lesson"])
    return not same_content(known, row.lesson)


def _change(step: _Step, actor: Actor, vectors: Vectors, at: str) -> Change:
    old = step.old
    replaced = old is not None and old.key != step.lesson.key
    if old is not None and not replaced:
        fields = {"lesson": step.lesson, "seed_id": step.seed_id, "proof": ""}
        row = old.model_copy(update=fields)  # with another trigger it was not measured
    else:
        earlier = old.key if old else ""
        row = Curated(lesson=step.lesson, seed_id=step.seed_id, since=at, supersedes=earlier)
    verb = "superseded by" if replaced else "loaded as"
    return Change(
        action=Action.SEED,
        key=step.lesson.key,
        reason=step.reason or f"{step.outcome.value}: {verb} seed {step.seed_id}",
        actor=actor,
        payload={
            "seed_id": step.seed_id,
            "lesson": step.lesson.model_dump(mode="json"),
            "replaces": old.model_dump(mode="json") if old else None,
        },
        put=(row,),
        vectors=vectors,
        remove=(old.key,) if replaced and old else (),
        archive=(_superseded(old, step, at),) if replaced and old else (),
    )


def _superseded(old: Curated, step: _Step, at: str) -> Archived:
    gone = old.lesson.model_copy(update={"status": Status.SUPERSEDED})
    reason = f"seed {step.seed_id} changed"
    return Archived(lesson=gone, reason=reason, at=at, curated=old)
