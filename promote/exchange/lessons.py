"""Take lessons out of a store, and into another one through the gate's one write path.

A line may be: new (added), curated here already (unchanged), curated with another trigger or
other tags (skipped, changed by `force`), out of use or forgotten here (skipped), repeating a
curated lesson (skipped), or against a rule or a curated lesson (held: a person decides).
Counters are not taken over: they count what happened in this installation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.models import Curated, Lesson, Status
from lessons_loop.promote.clock import iso
from lessons_loop.promote.decay.harmful import measured_harm
from lessons_loop.promote.exchange.file import Offered
from lessons_loop.promote.exchange.intake import FORGOTTEN, same_content
from lessons_loop.promote.forget.forgotten import Forgotten
from lessons_loop.promote.lint.check import lint
from lessons_loop.promote.records import Action, Actor, Archived, Change
from lessons_loop.promote.session import GateSession
from lessons_loop.promote.similar.similarity import CONFLICT, DUPLICATE, nearest

RETIRED = (Status.REJECTED, Status.STALE, Status.SUPERSEDED)
OUTCOMES = ("added", "changed", "unchanged", "held", "archived", "skipped")


class Step(NamedTuple):
    """What is done with one offered lesson."""

    offered: Offered
    outcome: str
    """One of OUTCOMES."""
    reason: str = ""


class ImportReport(NamedTuple):
    """Counts by outcome that add up to the lessons offered, and every step."""

    counts: dict[str, int]
    steps: tuple[Step, ...]


def chosen(session: GateSession, statuses: Sequence[Status]) -> list[Curated | Archived]:
    """Return the lessons of these statuses; of held ones only those that wait."""
    waiting = {row.id for row in session.held()}
    rows: list[Curated | Archived] = []
    if Status.CURATED in statuses:
        rows += session.curated.values()
    return rows + [
        row
        for row in session.archive.values()
        if row.status in statuses and (row.status is not Status.HELD or row.id in waiting)
    ]


def take_over(
    session: GateSession, offered: Sequence[Offered], actor: Actor, reason: str, force: bool
) -> ImportReport:
    """Carry the lessons in; raise EmbedError before anything is written, StoreError."""
    wanted = [one for one in offered if one.lesson.status is Status.CURATED]
    vectors = _vectors(session, wanted)
    steps = [
        _judged(session, one, vectors.get(one.lesson.key), Forgotten.load(session.state), force)
        for one in offered
    ]
    at = iso(session.now())
    with session.batch():
        for step in steps:
            if (change := _change(session, step, vectors, actor, reason, at)) is not None:
                session.apply(change)
    counts = Counter(step.outcome for step in steps)
    return ImportReport({name: counts[name] for name in OUTCOMES}, tuple(steps))


def _vectors(session: GateSession, wanted: Sequence[Offered]) -> dict[str, Vectors]:
    if not wanted:
        return {}
    rows = session.embed([one.lesson.embedded_text for one in wanted])
    return {one.lesson.key: row for one, row in zip(wanted, rows, strict=True)}


def _judged(
    session: GateSession,
    one: Offered,
    vector: Vectors | None,
    forgotten: Forgotten,
    force: bool,
) -> Step:
    lesson = one.lesson
    if vector is None:
        known = f"{lesson.key}-{lesson.status.value}" in session.archive
        if known or lesson.key in session.curated:
            return Step(one, "unchanged", "is here already")
        return Step(one, "archived", one.reason or lesson.status.value)
    if (same := session.curated.get(lesson.key)) is not None:
        if same_content(same.lesson, lesson, source=False):
            return Step(one, "unchanged")
        doubt = "curated here with another trigger or other tags"
        return Step(one, "changed" if force else "skipped", doubt)
    doubt, outcome = next(_doubts(session, lesson, vector, forgotten), ("", "added"))
    return Step(
        one, "added" if force else outcome, f"forced; {doubt}" if force and doubt else doubt
    )


def _doubts(
    session: GateSession, lesson: Lesson, vector: Vectors, forgotten: Forgotten
) -> Iterator[tuple[str, str]]:
    """Yield reasons against taking a lesson in, and what becomes of it then."""
    if lesson.key in session.unreadable_curated:
        yield "its curated row was changed by hand and cannot be read", "skipped"
    for status in RETIRED:
        if f"{lesson.key}-{status.value}" in session.archive:
            yield f"retired: it is {status.value} here", "skipped"
    if measured_harm(session.archive.get(f"{lesson.key}-{Status.HELD.value}")):
        yield "held here: it was measured to do harm", "skipped"
    if forgotten.covers_key(lesson.key):
        yield FORGOTTEN, "skipped"
    near = nearest(lesson, vector, session.curated, session.nearest_vectors())
    if near is not None and near.relation == DUPLICATE:
        yield f"says what {near.curated.key[:12]} says", "skipped"
    if near is not None and near.relation == CONFLICT:
        yield f"conflict: contradicts {near.curated.key[:12]}", "held"
    if findings := lint(lesson):
        yield f"{findings[0].rule}: {findings[0].sentence}", "held"


def _change(
    session: GateSession,
    step: Step,
    vectors: dict[str, Vectors],
    actor: Actor,
    reason: str,
    at: str,
) -> Change | None:
    """Return the change that carries a step out, None where nothing is to do."""
    if step.outcome in ("unchanged", "skipped"):
        return None
    lesson, seed_id = step.offered.lesson, step.offered.seed_id
    payload: dict[str, object] = {
        "lesson": lesson.model_dump(mode="json"),
        "line": step.offered.line,
        "outcome": step.outcome,
        "note": step.reason,
    }
    if step.outcome in ("held", "archived"):
        status = Status.HELD if step.outcome == "held" else lesson.status
        gone = lesson.model_copy(update={"status": status})
        row = Archived(lesson=gone, reason=f"import: {step.reason}"[:400], at=at)
        return Change(Action.IMPORT, lesson.key, reason, actor, payload, archive=(row,))
    old = session.curated.get(lesson.key)
    fresh = Curated(lesson=lesson, since=at, seed_id=seed_id)
    put = old.model_copy(update={"lesson": lesson, "proof": ""}) if old is not None else fresh
    row_vectors = vectors[lesson.key][None, :]
    return Change(
        Action.IMPORT, lesson.key, reason, actor, payload, put=(put,), vectors=row_vectors
    )
