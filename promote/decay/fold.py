"""Fold events into the use register and curated's counters, each exactly once.

`hits` counts the answers that showed a lesson, whoever asked: it decides nothing.
`successes` and `failures` are made anew from the register at each run, so that a thumb
that changes or goes, in any order and over any number of runs, leaves the same numbers.
Rows are deleted after all batches are counted; the register keeps a crash from counting twice.
Covered: repeated, forged, unknown, late and future events; a crash between two batches.
Not covered: somebody who may write to staging and sends very many well-formed uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lessons_loop.filter.models import Curated
from lessons_loop.promote.clock import parse_iso
from lessons_loop.promote.decay.fold_rows import (
    OfUse,
    by_use,
    in_batches,
    new_use,
    rated,
    too_late,
    totals,
    waits,
)
from lessons_loop.promote.decay.judged import judged
from lessons_loop.promote.decay.uses import Use
from lessons_loop.promote.records import Action, Actor, Change
from lessons_loop.promote.session import GateSession

FOLD_BATCH = 25_000
"""Staged rows of one change: its journal is about 15 MB."""
FOLDER = Actor(kind="rule", name="fold")


class FoldReport(NamedTuple):
    """What one fold did."""

    events: int
    """Events folded and deleted, unreadable ones not counted."""
    lessons: int
    """Lessons whose counters changed."""
    unknown: int
    """Lesson references that are not curated."""
    unreadable: int
    """Rows that were no event, or waited too long for a gate that reads them; deleted too."""
    waiting: int = 0
    """Ratings that wait for the use they belong to."""
    distiller: Mapping[str, int] = {}
    """What the filters counted since the last fold."""


@dataclass
class _Batch:
    """What a batch of events comes to."""

    uses: dict[str, Use] = field(default_factory=dict)
    rows: dict[str, Curated] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    unknown: int = 0
    waiting: int = 0


def fold_events(session: GateSession, *, by_tools: bool = False) -> FoldReport:
    """Fold what staging holds; where nothing changes nothing is written. Raises StoreError.

    `by_tools` lets the results of tools judge answers that no thumb has judged.
    """
    staged = session.events()
    known = {*session.curated, *(row.lesson.key for row in session.archive.values())}
    changed: set[str] = set()
    gone: list[str] = []
    unknown = waiting = 0
    for batch in in_batches(by_use(staged), FOLD_BATCH):
        found = _counted(session, batch, known)
        gone += found.gone
        unknown += found.unknown
        waiting += found.waiting
        changed |= set(found.rows)
        _apply(session, found)
    counts = totals(tally.totals() for _, tally in staged.tallies)
    strange = [*staged.unreadable, *too_late(staged, session.now())]
    report = FoldReport(len(gone), 0, unknown, len(strange), waiting, counts)
    _drop(session, [*gone, *(id_ for id_, _ in staged.tallies), *strange], report)
    changed |= settle_judged(session, by_tools=by_tools)
    return report._replace(lessons=len(changed))


def settle_judged(session: GateSession, *, by_tools: bool) -> set[str]:
    """Bring successes and failures in line with the register; return the lessons changed."""
    tallies = judged_tallies(session.uses.judgeable(by_tools=by_tools), by_tools=by_tools)
    rows = {}
    for key in sorted(session.uses.keys()):
        row = session.curated.get(key)
        good, bad = tallies.get(key, (0, 0))
        if row is not None and (row.successes, row.failures) != (good, bad):
            rows[key] = row.model_copy(update={"successes": good, "failures": bad})
    for start in range(0, len(rows), FOLD_BATCH):
        page = list(rows.values())[start : start + FOLD_BATCH]
        payload: dict[str, object] = {
            "judged": {row.key: [row.successes, row.failures] for row in page},
            "by_tools": by_tools,
        }
        reason = f"judged uses of {len(page)} lessons counted"
        session.apply(Change(Action.FOLD, "", reason, FOLDER, payload, put=tuple(page)))
    return set(rows)


def judged_tallies(uses: Iterable[Use], *, by_tools: bool) -> dict[str, tuple[int, int]]:
    """Return how many judged uses each lesson has that went well, and that did not."""
    found: dict[str, tuple[int, int]] = {}
    for use in uses:
        for key, good in judged(use, by_tools=by_tools).items():
            well, badly = found.get(key, (0, 0))
            found[key] = (well + good, badly + (not good))
    return found


def _counted(session: GateSession, batch: Sequence[OfUse], known: set[str]) -> _Batch:
    """Return what the events come to; those of uses in the register count no more."""
    stored = session.uses.get([one.use for one in batch])
    found, now = _Batch(), session.now()
    for one in batch:
        old = stored.get(one.use)
        use = old
        if use is None and one.usage is not None:
            use = new_use(one.usage, known, now)
            found.unknown += sum(key not in session.curated for key in set(one.usage.keys))
        elif use is None and waits(one.ratings, now):
            found.waiting += len(one.ratings)
            continue
        found.gone += one.rows
        if use is None:
            continue
        use = rated(use, one.ratings)
        if use != old:
            found.uses[use.id] = use
        if old is None:
            _count(session, found.rows, use)
    return found


def _count(session: GateSession, rows: dict[str, Curated], use: Use) -> None:
    moment = parse_iso(use.at)
    used = use.at if moment else ""
    for key in use.keys:
        row = rows.get(key) or session.curated.get(key)
        if row is not None:
            counts = {"hits": row.hits + 1, "last_used": max(row.last_used, used)}
            rows[key] = row.model_copy(update=counts)


def _apply(session: GateSession, found: _Batch) -> None:
    if not found.uses:
        return
    gains = {key: row.hits - session.curated[key].hits for key, row in found.rows.items()}
    payload: dict[str, object] = {
        "events": len(found.uses),
        "hits": gains,
    }
    session.apply(
        Change(
            action=Action.FOLD,
            key="",
            reason=f"{len(found.uses)} answers counted for {len(found.rows)} lessons",
            actor=FOLDER,
            payload=payload,
            put=tuple(found.rows.values()),
            uses=tuple(found.uses.values()),
        )
    )


def _drop(session: GateSession, rows: Sequence[str], report: FoldReport) -> None:
    """Delete what is folded, all at once: until then the register keeps it from counting twice.

    The ledger keeps the sums of the tallies.
    """
    if rows:
        reason = f"{len(rows)} rows of events folded"
        payload: dict[str, object] = report._asdict()
        session.apply(Change(Action.FOLD, "", reason, FOLDER, payload, events=tuple(rows)))
