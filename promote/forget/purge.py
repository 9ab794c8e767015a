"""Purge the archive: old rows go, what still decides something stays.

Kept whatever their age: held lessons that wait for a person, and what a person rejected
(a near copy of it must still be recognised). Everything else older than the given age goes:
what rules rejected (they would again), stale and superseded lessons, held ones decided on
since. The ledger keeps the decisions, payload files the texts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.models import Status
from lessons_loop.promote.clock import parse_iso, utc_now
from lessons_loop.promote.counting import many
from lessons_loop.promote.entry import login_name
from lessons_loop.promote.records import Action, Actor, Archived, Change
from lessons_loop.promote.session import GateSession, GateSettings, open_gate

_AGE = re.compile(r"([0-9]{1,5})\s*(d|w|m|y)", re.IGNORECASE)
_DAYS = {"d": 1, "w": 7, "m": 30, "y": 365}


class PurgeReport(NamedTuple):
    """What went, and what was old enough but stays."""

    removed: dict[str, int]
    """By status."""
    kept_waiting: int
    kept_rejected: int
    """Rejected by a person."""

    def lines(self, domain: str, verb: str) -> Iterator[str]:
        """Yield lines for people."""
        parts = ", ".join(f"{number} {name}" for name, number in sorted(self.removed.items()))
        count = sum(self.removed.values())
        yield f"{domain}: {verb} {many(count, 'archived lesson')}" + (
            f" ({parts})" if parts else ""
        )
        if self.kept_waiting:
            yield f"{domain}: {self.kept_waiting} stay: they wait for a person"
        if self.kept_rejected:
            yield f"{domain}: {self.kept_rejected} stay: a person rejected them"


def parse_age(text: str) -> timedelta:
    """Return an age such as `30d`, `12w`, `6m` or `1y`; raise LessonsError."""
    found = _AGE.fullmatch(text.strip())
    days = int(found[1]) * _DAYS[found[2].lower()] if found else 0
    if not 0 < days < 36500:
        raise LessonsError(f"--older-than must be an age such as 30d or 1y, got {text[:20]!r}")
    return timedelta(days=days)


def purge_domain(
    settings: GateSettings, age: timedelta, *, now: Callable[[], datetime] = utc_now
) -> PurgeReport:
    """Remove a domain's archived rows older than `age`; raise LockHeld, StoreError."""
    with open_gate(settings, now=now) as session:
        return purge(session, age)


def purge(session: GateSession, age: timedelta) -> PurgeReport:
    """Remove old archived rows in one change; without any nothing is written."""
    before = session.now() - age
    old = [row for row in session.archive.values() if _is_older(row, before)]
    waiting = {row.id for row in session.held()}
    rejected = _rejected_by_people(session)
    gone = [row for row in old if row.id not in waiting and not _stays(row, rejected)]
    report = PurgeReport(
        removed=dict(Counter(row.status.value for row in gone)),
        kept_waiting=sum(row.id in waiting for row in old),
        kept_rejected=sum(_stays(row, rejected) and row.id not in waiting for row in old),
    )
    if gone:
        session.apply(_change(session, gone, age))
    return report


def _change(session: GateSession, gone: list[Archived], age: timedelta) -> Change:
    return Change(
        action=Action.PURGE,
        key="",
        reason=f"{len(gone)} archived lessons older than {age.days} days",
        actor=Actor(kind="human", name=login_name()),
        payload={"removed": [row.id for row in gone], "older_than_days": age.days},
        unarchive=tuple(row.id for row in gone),
    )


def _is_older(row: Archived, before: datetime) -> bool:
    moment = parse_iso(row.at)
    return moment is not None and moment < before


def _stays(row: Archived, rejected: set[str]) -> bool:
    return row.status is Status.REJECTED and row.lesson.key in rejected


def _rejected_by_people(session: GateSession) -> set[str]:
    """Return keys a person rejected or withdrew, by the ledger."""
    words = (Action.REJECT, Action.RETIRE)
    return {
        entry.key
        for entry in session.ledger.entries()
        if entry.domain == session.domain and entry.action in words and entry.actor.kind == "human"
    }
