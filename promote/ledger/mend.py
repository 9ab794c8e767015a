"""Mend what a crash did to the ledger's end, without losing a decision.

- a line that lacks its newline alone, and is known to the journal or to curated: ended
- any other unfinished line was never acknowledged: its bytes go to `ledger.torn-<hash>`
- lines the journal holds, but the file lost: written again

Not mended: lines curated has seen that are gone from both; `verify` names them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from lessons_loop.promote.ledger.chain import Ledger, torn_name
from lessons_loop.promote.ledger.check import FIRST_PREV, Head, LedgerEntry, Line, read_torn


class Pending(NamedTuple):
    """Ledger lines of the change under way."""

    binding: tuple[LedgerEntry, ...] = ()
    """Of `journal.json`: they were in the ledger."""
    draft: tuple[LedgerEntry, ...] = ()
    """Of `journal.draft`: void unless the ledger has one of them."""


class Mending(NamedTuple):
    """What is to be done to the file's end; nothing where all is empty."""

    torn: Line | None = None
    ended: LedgerEntry | None = None
    """The torn line's entry where it is to be ended, not moved aside."""
    again: tuple[LedgerEntry, ...] = ()
    """Lines to write again."""

    @property
    def told(self) -> list[str]:
        """Return what is done, one line each."""
        lines = []
        if self.torn and self.ended:
            lines.append(f"line {self.torn.place}: a crash left out its end, which is added")
        elif self.torn:
            aside = torn_name(self.torn.raw)
            text = "was not finished, a crash came first: its bytes are moved to"
            lines.append(f"line {self.torn.place}: {text} {aside}")
        for entry in self.again:
            lines.append(f"line {entry.n}: was lost in a crash, it is written again")
        return lines

    def applied(self, lines: Sequence[Line]) -> list[Line]:
        """Return the lines as they are afterwards."""
        kept = [line for line in lines if line.ended]
        ended = (self.ended,) if self.ended else ()
        more = [
            Line(len(kept) + offset, entry.line()[:-1], entry)
            for offset, entry in enumerate((*ended, *self.again), start=1)
        ]
        return [*kept, *more]


def read_pending(state: Path) -> Pending:
    """Return the lines of the change under way; a file that cannot be read has none."""
    return Pending(_entries(state / "journal.json"), _entries(state / "journal.draft"))


def _entries(path: Path) -> tuple[LedgerEntry, ...]:
    try:
        plan = json.loads(path.read_bytes())
        raw = plan["entries"] if "entries" in plan else [plan["entry"]]
        return tuple(LedgerEntry.model_validate(one) for one in raw)
    except (OSError, ValueError, KeyError, TypeError, ValidationError):
        return ()


def find_mending(lines: Sequence[Line], pending: Pending, heads: Mapping[str, Head]) -> Mending:
    """Return what a crash left to mend; pure."""
    whole = [line for line in lines if line.ended]
    if whole and whole[-1].entry is None:
        return Mending()
    torn = next((line for line in lines if not line.ended), None)
    tail = whole[-1].entry if whole else None
    ended = _ended(torn, tail, pending, heads) if torn else None
    tail = ended or tail
    in_file = {line.entry.hash for line in whole if line.entry} | {ended.hash if ended else ""}
    drafted = pending.draft if any(one.hash in in_file for one in pending.draft) else ()
    return Mending(torn, ended, tuple(_lost(tail, pending.binding or drafted)))


def _ended(
    torn: Line, tail: LedgerEntry | None, pending: Pending, heads: Mapping[str, Head]
) -> LedgerEntry | None:
    entry = read_torn(torn)
    if entry is None or not _follows(entry, tail):
        return None
    known = {one.hash for one in (*pending.binding, *pending.draft)}
    known |= {head.hash for head in heads.values()}
    return entry if entry.hash in known else None


def _lost(tail: LedgerEntry | None, wanted: Iterable[LedgerEntry]) -> Iterable[LedgerEntry]:
    for entry in sorted(wanted, key=lambda one: one.n):
        if tail is not None and entry.n <= tail.n:
            continue
        if not _follows(entry, tail):
            return
        yield entry
        tail = entry


def _follows(entry: LedgerEntry, tail: LedgerEntry | None) -> bool:
    wanted = (tail.n + 1, tail.hash) if tail else (1, FIRST_PREV)
    return (entry.n, entry.prev) == wanted and entry.hash == entry.computed_hash()


def mend(ledger: Ledger, heads: Mapping[str, Head]) -> Mending:
    """Mend the ledger's end and return what was done; raise StoreError. For the lock's holder."""
    found = find_mending(ledger.lines(), read_pending(ledger.path.parent), heads)
    if found.ended:
        ledger.end_last_line()
    elif found.torn:
        ledger.move_torn_tail_aside()
    ledger.append(*found.again)
    return found
