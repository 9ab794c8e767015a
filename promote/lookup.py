"""Find what a person names: candidates, held and other lessons by the start of their id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from lessons_loop.filter.errors import EmbedError, InvalidLesson
from lessons_loop.filter.models import Curated, Status
from lessons_loop.promote.cases import Case, Casebook
from lessons_loop.promote.changes import Resolution, withdraw_change
from lessons_loop.promote.clock import iso
from lessons_loop.promote.gate import Rules
from lessons_loop.promote.gathering import Progress, gather, no_progress
from lessons_loop.promote.groups import Group
from lessons_loop.promote.lint import blocking
from lessons_loop.promote.records import Actor, Archived, Decision, Verdict
from lessons_loop.promote.run import apply_resolution
from lessons_loop.promote.run_report import Outcome
from lessons_loop.promote.session import GateSession

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
    book = Casebook(session, rules)
    return Listing(tuple(gather(book, session.candidates(), progress)), book)


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
    return only(found, prefix, what)


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
        raise InvalidLesson(f"no {what} starts with {prefix}: `lessons candidates` lists them")
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


def decide(
    session: GateSession,
    prefixes: Sequence[str],
    verdict: tuple[Decision, str, Actor],
    rules: Rules,
    supersede: str = "",
) -> list[Outcome]:
    """Carry a person's decision out on named lessons; all names are checked first.

    Rules may be overruled, and the ledger keeps which; secrets and hidden characters
    may not. Raises InvalidLesson, EmbedError, StoreError.
    """
    for prefix in prefixes:
        check_prefix(prefix)
    listing = list_waiting(session, rules)
    find = find_rejectable if verdict[0] is Decision.REJECT else find_waiting
    groups = {group.key: group for group in (find(listing, one) for one in prefixes)}
    replaces = find_curated(session, supersede) if supersede else None
    cases = [listing.book.case(group) for group in groups.values()]
    if verdict[0] is Decision.PROMOTE:
        _refuse_unpromotable(session, cases)
    return [_decide_one(session, case, verdict, replaces) for case in cases]


def _refuse_unpromotable(session: GateSession, cases: Sequence[Case]) -> None:
    if session.embedder is None:
        raise EmbedError("no embedder: set LESSONS_EMBEDDING, nothing is promoted without one")
    for case in cases:
        key = case.group.key
        if bad := blocking(case.findings):
            raise InvalidLesson(f"lesson {key[:12]} cannot be promoted: {bad[0].sentence}")
        if key in session.curated:
            raise InvalidLesson(
                f"lesson {key[:12]} is curated already: `lessons reject` withdraws it"
            )


def _decide_one(
    session: GateSession,
    case: Case,
    wanted: tuple[Decision, str, Actor],
    replaces: Curated | None,
) -> Outcome:
    decision, reason, actor = wanted
    leaving = session.curated.get(case.group.key) if decision is Decision.REJECT else None
    rule = "withdrawn" if leaving else "person"
    verdict = Verdict(decision, rule, reason, actor, case.verdict.neighbour)
    found = Resolution(
        group=case.group,
        verdict=verdict,
        findings=case.findings,
        at=iso(session.now()),
        by_rules=case.verdict,
        replaces=replaces,
        history=case.history,
    )
    if leaving:
        session.apply(withdraw_change(leaving, found))
    else:
        apply_resolution(session, found)
    return Outcome(case, verdict, case.group.lesson)
