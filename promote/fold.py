"""Fold usage events into curated's counters, as absolute values, in one change.

An event may be forged: it counts once per lesson, an unknown lesson counts nothing,
a time in the future counts as now, and a run folds at most 5,000 events.
Not covered: somebody who sends very many well-formed events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from lessons_loop.filter.events import Usage
from lessons_loop.filter.models import Curated
from lessons_loop.promote.clock import iso, parse_iso
from lessons_loop.promote.records import Action, Actor, Change
from lessons_loop.promote.session import GateSession

FOLD_LIMIT = 5000


class FoldReport(NamedTuple):
    """What one fold did."""

    events: int
    """Events folded and deleted, unreadable ones not counted."""
    lessons: int
    """Lessons whose counters changed."""
    unknown: int
    """Lesson references that are not curated."""
    unreadable: int
    """Rows that were no event; deleted too."""


class Counted(NamedTuple):
    """New curated rows, and how many references were unknown."""

    rows: dict[str, Curated]
    unknown: int


def fold_events(session: GateSession) -> FoldReport:
    """Fold what staging holds; without an event nothing is written. Raises StoreError."""
    staged = session.events()
    usages = staged.usages[:FOLD_LIMIT]
    unreadable = staged.unreadable[:FOLD_LIMIT]
    if not usages and not unreadable:
        return FoldReport(0, 0, 0, 0)
    counted = count_usages(session.curated, [usage for _, usage in usages], session.now())
    report = FoldReport(len(usages), len(counted.rows), counted.unknown, len(unreadable))
    session.apply(
        Change(
            action=Action.FOLD,
            key="",
            reason=f"{report.events} events folded into {report.lessons} lessons",
            actor=Actor(kind="rule", name="fold"),
            payload=report._asdict() | {"hits": _gains(session.curated, counted.rows)},
            put=tuple(counted.rows.values()),
            events=(*(id_ for id_, _ in usages), *unreadable),
        )
    )
    return report


def count_usages(curated: Mapping[str, Curated], usages: Sequence[Usage], now: datetime) -> Counted:
    """Return the rows that change, with their new hits and last_used."""
    rows: dict[str, Curated] = {}
    unknown = 0
    for usage in usages:
        moment = parse_iso(usage.at)
        used = iso(min(moment, now)) if moment else ""
        for key in dict.fromkeys(usage.keys):
            row = rows.get(key) or curated.get(key)
            if row is None:
                unknown += 1
                continue
            counts = {"hits": row.hits + 1, "last_used": max(row.last_used, used)}
            rows[key] = row.model_copy(update=counts)
    return Counted(rows, unknown)


def _gains(old: Mapping[str, Curated], new: Mapping[str, Curated]) -> dict[str, int]:
    return {key: row.hits - old[key].hits for key, row in new.items()}
