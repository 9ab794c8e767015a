"""Find what a person names: candidates, held and other lessons by the start of their id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from lessons_loop.filter.errors import InvalidLesson
from lessons_loop.filter.models import Curated, Status
from lessons_loop.promote.cases import Case, Casebook
from lessons_loop.promote.evidence.seals import read_seals
from lessons_loop.promote.gate import Rules
from lessons_loop.promote.gathering import Progress, gather, no_progress
from lessons_loop.promote.records import Archived
from lessons_loop.promote.session import GateSession
from lessons_loop.promote.similar.groups import Group

LEAST_PREFIX = 6
Found = TypeVar("Found")


@dataclass(frozen=True)
class Listing:
    """What is waiting for a decision, and the book that judged it."""

    groups: tuple[Group, ...]
    book: Casebook

    def cases(self, progress: Progress = no_progress) -> list[Case]:
        """Return the groups with the rules' verdicts."""
        found = []
        for done, group in enumerate(self.groups):
            progress("judging", done, len(self.groups))
            found.append(self.book.case(group))
        return found


def list_waiting(session: GateSession, rules: Rules, progress: Progress = no_progress) -> Listing:
    """Return staged and held lessons, grouped; raise StoreError, EmbedError."""
    candidates = session.candidates()
    book = Casebook(session, rules, read_seals(session, candidates))
    return Listing(tuple(gather(book, candidates, progress)), book)


def find_waiting(
    listing: Listing, prefix: str, what: str = "candidate, held or rejected lesson"
) -> Group:
    """Return the one group an id names; raise InvalidLesson when none or several fit."""
    found = [group for group in listing.groups if _fits(group, prefix)]
    if not found:
        archive = listing.book.session.archive.values()
        rejected = {row.lesson.key: row for row in archive if row.status is Status.REJECTED}
        curated = listing.book.session.curated
        found = [
            _from_archive(row)
            for key, row in rejected.items()
            if key.startswith(prefix) and key not in curated
        ]
        if not found and any(key.startswith(prefix) for key in curated):
            raise InvalidLesson(
                f"lesson {prefix} is curated already: `lessons reject` withdraws it"
            )
    if not found:
        _refuse_gone(listing, prefix)
    return only(found, prefix, what)


def _refuse_gone(listing: Listing, prefix: str) -> None:
    """Raise InvalidLesson for a lesson out of use, with what can be done about it."""
    rows = [
        row for row in listing.book.session.archive.values() if row.lesson.key.startswith(prefix)
    ]
    if rows:
        status = max(rows, key=lambda row: row.ledger_ref).status.value
        raise InvalidLesson(
            f"lesson {prefix} is {status}: `lessons show` tells why, `lessons revive` reopens it"
        )


def find_rejectable(listing: Listing, prefix: str) -> Group:
    """Return what a rejection names: a curated lesson with its new sightings, or one that waits.

    Raises InvalidLesson when none or several fit.
    """
    curated = listing.book.session.curated
    rows = [row for key, row in curated.items() if key.startswith(prefix)]
    if not rows:
        return find_waiting(listing, prefix, "candidate, held, rejected or curated lesson")
    whole = prefix in curated  # such a group may hold it as one wording of another lesson
    waiting = [
        group
        for group in listing.groups
        if (group.key == prefix if whole else _fits(group, prefix))
    ]
    lessons = {row.key: row.lesson for row in rows} | {one.key: one.lesson for one in waiting}
    lesson = only(list(lessons.values()), prefix, "lesson")
    return next((group for group in waiting if group.key == lesson.key), Group(lesson, ()))


def find_holdable(listing: Listing, prefix: str) -> Group:
    """Return what a hold names; raise InvalidLesson, for a curated lesson with what to do."""
    rows = [key for key in listing.book.session.curated if key.startswith(prefix)]
    if rows and not any(_fits(group, prefix) for group in listing.groups):
        raise InvalidLesson(f"lesson {prefix} is curated: `lessons demote` takes it out of use")
    return find_waiting(listing, prefix)


def find_revivable(listing: Listing, prefix: str) -> Group:
    """Return the lesson out of use an id names, with what waits of it; raise InvalidLesson."""
    session = listing.book.session
    rows = [row for row in session.archive.values() if row.lesson.key.startswith(prefix)]
    latest = {row.lesson.key: row for row in sorted(rows, key=lambda row: row.ledger_ref)}
    if not latest:
        if any(_fits(group, prefix) for group in listing.groups):
            raise InvalidLesson(f"lesson {prefix} was never decided on: `lessons promote` does it")
        curated = [row for key, row in session.curated.items() if key.startswith(prefix)]
        return Group(only(curated, prefix, "stale, rejected, superseded or held lesson").lesson, ())
    row = only(list(latest.values()), prefix, "lesson")
    waiting = next((one for one in listing.groups if one.key == row.lesson.key), None)
    return waiting or _from_archive(row)


def find_demotable(session: GateSession, prefix: str) -> Group:
    """Return the curated lesson an id names, or a stale one; raise InvalidLesson."""
    curated = {key: row.lesson for key, row in session.curated.items() if key.startswith(prefix)}
    stale = {
        row.lesson.key: row.lesson
        for row in session.archive.values()
        if row.status is Status.STALE and row.lesson.key.startswith(prefix)
    }
    lessons = list((stale | curated).values())
    if not lessons and any(row.lesson.key.startswith(prefix) for row in session.archive.values()):
        raise InvalidLesson(f"lesson {prefix} is not curated: `lessons show {prefix}` says what is")
    return Group(only(lessons, prefix, "curated lesson"), ())


def find_curated(session: GateSession, prefix: str) -> Curated:
    """Return the one curated lesson an id names; raise InvalidLesson."""
    check_prefix(prefix)
    found = [row for key, row in session.curated.items() if key.startswith(prefix)]
    return only(found, prefix, "curated lesson")


def check_prefix(prefix: str) -> None:
    """Raise InvalidLesson when an id is too short to name one lesson."""
    if len(prefix) < LEAST_PREFIX:
        raise InvalidLesson(f"id {prefix!r} is too short: give at least {LEAST_PREFIX} characters")


def only(found: Sequence[Found], prefix: str, what: str) -> Found:
    """Return the single thing found; raise InvalidLesson."""
    if len(found) > 1:
        raise InvalidLesson(f"id {prefix} fits {len(found)} lessons: give more characters")
    if not found:
        step = "`lessons candidates` lists what waits, --domain names another domain"
        raise InvalidLesson(f"no {what} starts with {prefix}: {step}")
    return found[0]


def _fits(group: Group, prefix: str) -> bool:
    names = (
        group.key,
        *(seen.id for seen in group.candidates),
        *(r.lesson.key for r in group.held),
    )
    return any(name.startswith(prefix) for name in names)


def _from_archive(row: Archived) -> Group:
    return Group(row.lesson, row.all_sightings, (), (row,))
