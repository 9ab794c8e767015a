"""Check that every lesson's references lead to ledger lines that fit: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lessons_loop.filter.models import Curated, Status
from lessons_loop.promote.ledger.check import Head, LedgerEntry, Line, Problem
from lessons_loop.promote.records import Action, Archived

INTAKE = frozenset({Action.PROMOTE, Action.SUPERSEDE, Action.SEED, Action.REVIVE, Action.IMPORT})
"""Actions that bring a lesson into curated."""
VERDICTS = INTAKE | {Action.DUPLICATE, Action.RESTORE, Action.FORGET}
_ANY = frozenset({Action.IMPORT, Action.RESTORE, Action.FORGET})
_MERGING = INTAKE | {Action.DUPLICATE, Action.HOLD, Action.REJECT, Action.RETIRE, Action.DEMOTE}
OUT: Mapping[Status, frozenset[Action]] = {
    Status.HELD: _ANY | {Action.HOLD, Action.RETIRE, Action.DEMOTE},
    Status.REJECTED: _ANY | {Action.REJECT, Action.RETIRE},
    Status.STALE: _ANY | {Action.RETIRE, Action.DEMOTE},
    Status.SUPERSEDED: _ANY | _MERGING,
}
"""Actions that put a lesson into the archive, by its status there."""
KEYLESS = _ANY
"""Actions one line of which may stand for many lessons."""


class DomainRows(NamedTuple):
    """What the store holds of a domain."""

    head: Head
    curated: Mapping[str, Curated]
    unreadable: Mapping[str, str]
    """Curated rows that are none, by id, with the reason."""
    archive: Mapping[str, Archived]
    unreadable_archive: Sequence[str] = ()


def reference_problems(lines: Sequence[Line], domains: Mapping[str, DomainRows]) -> list[Problem]:
    """Return the rows whose references do not fit; place 0 where there is no such line."""
    by_number = {line.entry.n: line for line in lines if line.entry}
    problems = []
    for domain, rows in domains.items():
        for key, reason in rows.unreadable.items():
            problems.append(Problem(0, f"curated row {key[:12]} of {domain}: {reason}"))
        for id_ in rows.unreadable_archive:
            problems.append(Problem(0, f"archive row {id_[:40]} of {domain} cannot be read"))
        for row in rows.curated.values():
            problems += _curated_problems(row, domain, by_number)
        for id_, archived in rows.archive.items():
            problems += _archive_problems(id_, archived, domain, by_number)
    return problems


def _curated_problems(row: Curated, domain: str, lines: Mapping[int, Line]) -> list[Problem]:
    found = []
    for name, number, allowed in (
        ("ledger_ref", row.ledger_ref, INTAKE),
        ("verdict_ref", row.verdict_ref, VERDICTS),
    ):
        what = f"curated lesson {row.key[:12]}: {name} {number}"
        found += _misfit(what, lines.get(number), domain, allowed, {row.key})
    return found


def _archive_problems(
    id_: str, row: Archived, domain: str, lines: Mapping[int, Line]
) -> list[Problem]:
    line = lines.get(row.ledger_ref)
    keys = {row.lesson.key}
    if line and line.entry and row.status is Status.SUPERSEDED:
        keys.add(line.entry.key)  # the line is about the lesson that took its place
    what = f"archived lesson {id_[:12]} ({row.status.value}): ledger_ref {row.ledger_ref}"
    allowed = OUT[row.status]
    if row.status is Status.HELD and row.curated and row.ledger_ref == row.curated.verdict_ref:
        allowed |= VERDICTS  # of a snapshot from before its evidence was forgotten
    return _misfit(what, line, domain, allowed, keys)


def _misfit(
    what: str, line: Line | None, domain: str, allowed: frozenset[Action], keys: set[str]
) -> list[Problem]:
    entry: LedgerEntry | None = line.entry if line else None
    if line is None or entry is None:
        return [Problem(0, f"{what} is no line of the ledger")]
    if entry.domain != domain:
        return [Problem(line.place, f"{what} is a line of domain {entry.domain}, not {domain}")]
    if entry.action not in allowed:
        return [Problem(line.place, f"{what} is a line that says {entry.action.value}")]
    if entry.key not in keys and not (entry.action in KEYLESS and not entry.key):
        return [Problem(line.place, f"{what} is a line about lesson {entry.key[:12]}")]
    return []
