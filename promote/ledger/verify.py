"""Verify a state directory against its store: chain, heads, payloads, references.

Covered: all domains of the state directory, use registers and tombstones; a store that
cannot be read (the ledger alone is checked then, and that is said); a gate at work (refused);
what a crash left to mend.
Not covered: counters, triggers and tags of curated rows, which no hash ties to the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lessons_loop.filter.errors import LessonsError, StoreError
from lessons_loop.filter.store import collection_names
from lessons_loop.promote.clock import utc_now
from lessons_loop.promote.forget.forgotten import Forgotten
from lessons_loop.promote.ledger.chain import Ledger
from lessons_loop.promote.ledger.check import Head, Line, Problem, chain_problems, head_problems
from lessons_loop.promote.ledger.mend import Pending, find_mending, read_pending
from lessons_loop.promote.ledger.verify_files import file_problems
from lessons_loop.promote.ledger.verify_references import DomainRows, reference_problems
from lessons_loop.promote.state import existing_store, locate
from lessons_loop.promote.store.archive import read_archive
from lessons_loop.promote.store.curated import find_curated, read_curated
from lessons_loop.promote.store.holdings import Holdings
from lessons_loop.promote.store.places import Clients, FolderStore
from lessons_loop.promote.store.rows import find_collection
from lessons_loop.promote.store.scratch import working_copy
from lessons_loop.promote.store.server_place import ServerStore


@dataclass
class Verified:
    """What a verification found."""

    lines: int = 0
    curated: int = 0
    archived: int = 0
    forgotten: int = 0
    """Lines whose payload was deleted on purpose."""
    domains: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    """The first bad line's first; rows without a line come last."""
    notes: list[str] = field(default_factory=list)
    """What a crash left; the next gate mends it, nothing is lost."""
    unread: str = ""
    """Why the store was not read; heads and references are unchecked then."""

    @property
    def first_bad(self) -> int | None:
        """The first bad line, None where every line is sound."""
        return next((one.place for one in self.problems if one.place), None)

    @property
    def sound(self) -> bool:
        """Whether all was checked and nothing is wrong."""
        return not self.problems and not self.unread

    def as_dict(self) -> dict[str, Any]:
        """Return it for machines."""
        return {
            "verified": self.sound,
            "lines": self.lines,
            "curated": self.curated,
            "archived": self.archived,
            "forgotten": self.forgotten,
            "domains": self.domains,
            "first_bad_line": self.first_bad,
            "problems": [told(one) for one in self.problems],
            "to_mend": self.notes,
            "store_not_read": self.unread,
        }


def told(problem: Problem) -> str:
    """Return a problem as one line; place 0 names no line."""
    return problem.told if problem.place else problem.text


@dataclass
class _Picture:
    """Ledger and store as they stood at one moment."""

    lines: Sequence[Line] = ()
    pending: Pending = field(default_factory=Pending)
    payload_problems: Sequence[Problem] = ()
    heads: Mapping[str, Head] = field(default_factory=dict)
    domains: dict[str, DomainRows] = field(default_factory=dict)
    files: Sequence[Problem] = ()
    """Of the files beside the ledger."""


def verify_state(store: str, state: Path, domains: Sequence[str] = ()) -> Verified:
    """Check everything a state directory vouches for; an empty `store` checks the ledger alone.

    `domains`: look at their lessons only; the ledger is checked as a whole all the same.

    Raises StoreError where there is neither store nor ledger, or the ledger cannot be read.
    """
    gone = Forgotten.load(state).payloads
    unread = "no store given"
    picture = None
    if store:
        try:
            existing_store(store)
            picture = _picture(locate(store, state), gone)
            unread = ""
        except LessonsError as error:
            if not Ledger(state).path.exists():
                raise
            unread = str(error)
    if picture is None:
        picture = _ledger_alone(state, gone)
    if missing := [name for name in domains if name not in picture.domains and not unread]:
        there = ", ".join(sorted(picture.domains)) or "no domain"
        raise StoreError(f"no domain {missing[0][:60]!r} in this store, which has {there}")
    if domains:
        picture.domains = {name: picture.domains[name] for name in domains if not unread}
    return _checked(picture, gone, unread)


def _picture(place: FolderStore | ServerStore, gone: set[str]) -> _Picture:
    if isinstance(place, FolderStore):
        with working_copy(place, "", True) as copy:
            copy.make_layout()
            with copy.opened("", utc_now) as clients:
                heads = Holdings(clients, "").heads()
                found = _ledger_alone(copy.state, gone)
                found.heads = heads
                found.domains = {name: _rows(clients, name, head) for name, head in heads.items()}
        return found
    found = _ledger_alone(place.state, gone)
    for name in place.domains():
        with working_copy(place, name, True) as copy, copy.opened(name, utc_now) as clients:
            heads = Holdings(clients, name).heads()
            rows = found.domains | {name: _rows(clients, name, heads[name])}
            found = _ledger_alone(copy.state, gone)
            found.heads, found.domains = heads, rows
    return found


def _ledger_alone(state: Path, gone: set[str]) -> _Picture:
    ledger = Ledger(state)
    lines = ledger.lines()
    payloads, files = ledger.payload_problems(lines, gone), file_problems(state)
    return _Picture(lines, read_pending(state), payloads, files=files)


def _rows(clients: Clients, domain: str, head: Head) -> DomainRows:
    curated = read_curated(find_curated(clients.curated, domain, any_space=True), domain)
    archive = find_collection(clients.gate, collection_names(domain)["archive"])
    if archive is None:
        return DomainRows(head, curated.lessons, curated.unreadable, {})
    kept = read_archive(archive, -1)
    bad = sorted(set(kept.fields) - set(kept.lessons))
    return DomainRows(head, curated.lessons, curated.unreadable, kept.lessons, bad)


def _checked(picture: _Picture, gone: set[str], unread: str) -> Verified:
    mending = find_mending(picture.lines, picture.pending, picture.heads)
    lines = mending.applied(picture.lines)
    under_way = _under_way(lines, picture.pending)
    problems = chain_problems(lines) + head_problems(lines, picture.heads, under_way)
    problems += [*picture.payload_problems, *picture.files]
    problems += [] if under_way else reference_problems(lines, picture.domains)
    last = max((one.place for one in problems), default=0) + 1
    entries = [line.entry for line in lines if line.entry]
    notes = mending.told
    if under_way:
        numbers = ", ".join(str(entry.n) for entry in under_way[:5])
        notes.append(f"line {numbers}: the change is not carried out yet, the next run does it")
    return Verified(
        lines=len(lines),
        curated=sum(len(rows.curated) for rows in picture.domains.values()),
        archived=sum(len(rows.archive) for rows in picture.domains.values()),
        forgotten=sum(entry.payload in gone for entry in entries),
        domains=sorted({*picture.domains, *(entry.domain for entry in entries)}),
        problems=sorted(problems, key=lambda one: one.place or last),
        notes=notes,
        unread=unread,
    )


def _under_way(lines: Sequence[Line], pending: Pending) -> list[Any]:
    known = {one.hash for one in (*pending.binding, *pending.draft)}
    return [line.entry for line in lines if line.entry and line.entry.hash in known]
