"""The parts of a status that the state directory tells: ledger's tail, runs, pause, records."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from lessons_loop.deploy.status.facts import StoreStatus
from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.ledger.chain import LedgerEntry
from lessons_loop.promote.runs.pause import read_pause
from lessons_loop.promote.runs.register import read_runs
from lessons_loop.promote.runs.summary import LessonRecord, Summary

RUNS = 14
TAIL_BYTES = 2**19
"""Of a long ledger; about 1,000 lines, checked in 50 ms."""


class Tail(NamedTuple):
    """The end of a ledger."""

    lines: int
    """Whole lines of the file."""
    entries: list[LedgerEntry]
    problems: list[str]
    torn: bool
    """Whether the last line has no end: a crash came before it was acknowledged."""


def add_ledger(
    found: StoreStatus, state: Path, summaries: Sequence[Summary], domains: Sequence[str]
) -> None:
    """Verify the ledger's tail and hold it against what curated was last written with.

    The last run is that of the domains named; of any where none is.
    """
    try:
        tail = read_tail(state / "ledger.jsonl")
    except OSError as error:
        found.problems.append(f"ledger: cannot be read: {str(error.strerror).lower()}")
        return
    found.ledger_lines, found.ledger_checked = tail.lines, len(tail.entries)
    problems = tail.problems + [text for one in summaries for text in head_problems(tail, one)]
    found.problems += [f"ledger: {problem}" for problem in problems[:3]]
    found.ledger_verified = not problems
    if tail.torn:
        found.notes.append("the ledger's last line has no end: the next run of the gate mends it")
    add_last_run(found, [one for one in tail.entries if not domains or one.domain in domains])
    for one in summaries:
        last = max((entry.n for entry in tail.entries if entry.domain == one.domain), default=0)
        if last > one.head_n and not problems:
            found.notes.append(
                f"{one.domain}: the last change is not finished: the next run completes it"
            )


def read_tail(path: Path, most: int = TAIL_BYTES) -> Tail:
    """Return the ledger's last lines, each checked against the one before; raise OSError."""
    if not path.exists():
        return Tail(0, [], [], torn=False)
    with path.open("rb") as file:
        count = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(2**20), b""))
        size = file.tell()
        file.seek(max(0, size - most))
        lines = file.read().split(b"\n")
    torn = bool(lines.pop())
    if size > most:
        lines = lines[1:]  # begins in the middle of a line
    first = count - len(lines) + 1
    entries: list[LedgerEntry] = []
    problems: list[str] = []
    for number, line in enumerate(lines, start=first):
        try:
            entry = LedgerEntry.model_validate_json(line)
        except ValidationError:
            problems.append(f"line {number}: cannot be read")
            continue
        problems += link_problems(entry, number, entries[-1] if entries else None)
        entries.append(entry)
    return Tail(count, entries, problems, torn)


def link_problems(entry: LedgerEntry, number: int, before: LedgerEntry | None) -> list[str]:
    """Return what is wrong with one line of the tail."""
    if entry.hash != entry.computed_hash():
        return [f"line {number}: was edited, its hash does not match"]
    if entry.n != number:
        return [f"line {number}: says it is line {entry.n}"]
    if before is not None and before.n == number - 1 and entry.prev != before.hash:
        return [f"line {number}: does not follow the line before it"]
    return []


def head_problems(tail: Tail, summary: Summary) -> list[str]:
    """Return what is wrong with the line curated was last written with."""
    if summary.head_n > tail.lines:
        return [f"{summary.domain}: line {summary.head_n} is missing, the ledger was cut off"]
    known = {entry.n: entry.hash for entry in tail.entries}
    if known.get(summary.head_n, summary.head_hash) != summary.head_hash:
        return [f"{summary.domain}: line {summary.head_n} is not the one curated was written with"]
    return []


def add_last_run(found: StoreStatus, entries: Sequence[LedgerEntry]) -> None:
    """Let the newest of these lines be the last run where none is newer."""
    if entries:
        found.last_run = max(found.last_run, f"{entries[-1].at} {entries[-1].run}")


def add_operations(
    found: StoreStatus, state: Path, environ: Mapping[str, str], domains: Sequence[str]
) -> None:
    """Add the last runs of the domains named, of all where none is, and what holds them back."""
    pause = read_pause(state, environ)
    found.pause = pause.told if pause else ""
    try:
        runs = read_runs(state, domains, last=RUNS)
    except LessonsError as error:
        found.problems.append(str(error))
        return
    found.runs = list(runs)
    whole = [line for line in runs if not (line.preview or line.paused or line.error)]
    if whole and whole[-1].run not in found.last_run:  # one that found nothing to decide
        found.last_run = max(found.last_run, f"{whole[-1].ended} {whole[-1].run}")
    if runs.unreadable:
        found.notes.append(f"{runs.unreadable} lines of runs.jsonl cannot be read")
    unattended = [line for line in runs if line.preview]
    if unattended and not os.path.lexists(state / "confirmed.json"):
        found.preview = f"unattended runs only preview since {unattended[0].started}"
    if runs and runs[-1].error:
        found.notes.append(f"the last run ended with an error: {runs[-1].error}")


def ranked(records: Iterable[LessonRecord]) -> list[LessonRecord]:
    """Return records with failures first, the worst rate in front, then the most used."""
    return sorted(records, key=rank)


def rank(record: LessonRecord) -> tuple[float, int, int, str]:
    """Return what a record is sorted by."""
    rate = record.successes / record.judged if record.failures else 2.0
    return (rate, -record.failures, -record.hits, record.key)
