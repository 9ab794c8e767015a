"""What a report shows, read from the state directory alone: ledger, runs, summaries, uses."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from lessons_loop.deploy.status.runs import ranked
from lessons_loop.filter.errors import InvalidLesson
from lessons_loop.filter.models import Curated, Lesson
from lessons_loop.promote.ledger.chain import Ledger, LedgerEntry
from lessons_loop.promote.ledger.past import TAKES_IN
from lessons_loop.promote.records import Action
from lessons_loop.promote.runs.register import RunLine, read_runs
from lessons_loop.promote.runs.summary import LessonRecord, Summary, read_records, read_summaries

Z = 1.96
"""Standard deviations of the bounds that are drawn: 95 %."""
KEPT_OUT = ("held", "archived")
"""Outcomes of an import that made nothing curated."""
TOLD_BY_PAYLOAD = frozenset(Action) - {Action.PROMOTE, Action.REJECT, Action.HOLD, Action.FOLD}
"""Whose line does not say all that came and went."""
PayloadOf = Callable[[LedgerEntry], Mapping[str, Any]]
TAKES_OUT = (Action.REJECT, Action.RETIRE, Action.DEMOTE, Action.HOLD, Action.FORGET, Action.PURGE)
_DAYS = """
select substr(json_extract(row, '$.at'), 1, 10) as day, count(*),
  sum(json_extract(row, '$.rating') = 'up'), sum(json_extract(row, '$.rating') = 'down')
from uses group by day order by day
"""


class UseDay(NamedTuple):
    """Answers of one day that were given lessons."""

    day: str
    uses: int
    up: int
    down: int


class Rate(NamedTuple):
    """How often a judged lesson went well, with the bounds of chance."""

    record: LessonRecord
    rate: float
    low: float
    high: float


class DomainReport(NamedTuple):
    """One domain's figures."""

    summary: Summary
    growth: list[tuple[str, int]]
    """Curated lessons at the end of each day something changed."""
    runs: list[RunLine]
    rates: list[Rate]
    """Judged lessons, the worst first."""
    base: float | None
    """Share of all judged uses that went well; None: none was judged."""
    days: list[UseDay]


def read_report(state: Path, domains: Sequence[str]) -> list[DomainReport]:
    """Return the figures of each domain; raise StoreError where a file cannot be read."""
    ledger = Ledger(state)
    entries = ledger.entries()
    summaries = {one.domain: one for one in read_summaries(state)}
    return [
        domain_report(state, summaries.get(name) or Summary(domain=name), ledger, entries)
        for name in domains
    ]


def domain_report(
    state: Path, summary: Summary, ledger: Ledger, entries: Sequence[LedgerEntry]
) -> DomainReport:
    """Return one domain's figures."""
    name = summary.domain
    judged = [record for record in ranked(read_records(state, name)) if record.judged]
    total = summary.successes + summary.failures
    own = [entry for entry in entries if entry.domain == name]
    return DomainReport(
        summary,
        growth(own, lambda entry: ledger.payload(entry) or {}),
        list(read_runs(state, name)),
        [rate_of(record) for record in judged],
        summary.successes / total if total else None,
        use_days(state, name),
    )


def growth(entries: Iterable[LedgerEntry], payload_of: PayloadOf) -> list[tuple[str, int]]:
    """Return how many lessons were curated at the end of each day, from the ledger alone."""
    curated: set[str] = set()
    by_day: dict[str, int] = {}
    for entry in entries:
        before = len(curated)
        payload = payload_of(entry) if entry.action in TOLD_BY_PAYLOAD else {}
        if entry.action in TAKES_IN and payload.get("outcome") not in KEPT_OUT:
            curated.add(entry.key)
            curated.difference_update({*keys_of([payload.get("replaces")])} - {entry.key})
        elif entry.action in TAKES_OUT:
            curated.discard(entry.key)
            curated.difference_update(texts_of(payload.get("removed"), "held"))
        elif entry.action is Action.RESTORE:
            curated.update(texts_of(payload, "curated"))
            curated.difference_update(keys_of(payload.get("left") or ()))
        if len(curated) != before or not by_day:
            by_day[entry.at[:10]] = len(curated)
    return sorted(by_day.items())


def texts_of(content: object, name: str) -> list[str]:
    """Return the texts of a list in a payload, none where there is no such list."""
    found = content.get(name) if isinstance(content, Mapping) else None
    return [text for text in found if isinstance(text, str)] if isinstance(found, list) else []


def keys_of(rows: Iterable[object]) -> Iterator[str]:
    """Yield the keys of curated lessons as payloads carry them; others are passed over."""
    for row in rows:
        lesson = row.get("lesson") if isinstance(row, Mapping) else None
        try:
            if isinstance(row, Mapping) and "since" in row:
                yield Curated.build(**row).key
            elif isinstance(lesson, Mapping):
                yield Lesson.build(**lesson).key
        except (InvalidLesson, TypeError):
            continue


def rate_of(record: LessonRecord) -> Rate:
    """Return a record's rate with Wilson's bounds."""
    count, share = record.judged, record.successes / record.judged
    middle = share + Z**2 / (2 * count)
    spread = Z * sqrt(share * (1 - share) / count + Z**2 / (4 * count**2))
    whole = 1 + Z**2 / count
    return Rate(
        record, share, max(0.0, (middle - spread) / whole), min(1.0, (middle + spread) / whole)
    )


def use_days(state: Path, domain: str) -> list[UseDay]:
    """Return the use register by day; none without one."""
    path = state / "uses" / f"{domain}.sqlite"
    if not path.is_file():
        return []
    try:
        address = f"file:{quote(str(path))}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=1)) as file:
            return [
                UseDay(str(day or ""), int(uses), int(up or 0), int(down or 0))
                for day, uses, up, down in file.execute(_DAYS)
            ]
    except sqlite3.Error:
        return []
