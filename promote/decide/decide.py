"""A person's word on named lessons: promote, reject, hold, demote, revive.

All names are checked before the first decision is carried out. Covered: rules may be overruled,
and the ledger keeps which; secrets, personal values and hidden characters may not. A lesson that
stands so already is left alone.
Not covered: two names of one call that say the same; each is compared with curated as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from lessons_loop.filter.errors import EmbedError, InvalidLesson
from lessons_loop.filter.models import Curated, Status
from lessons_loop.promote.cases import Case
from lessons_loop.promote.clock import iso
from lessons_loop.promote.decide.changes import Resolution
from lessons_loop.promote.decide.changes_named import demote_change, revive_change, withdraw_change
from lessons_loop.promote.embedding.forms import NO_EMBEDDER
from lessons_loop.promote.gate import RELATION_REASONS, Rules
from lessons_loop.promote.lint.check import blocking
from lessons_loop.promote.lookup import (
    Listing,
    check_prefix,
    find_curated,
    find_demotable,
    find_holdable,
    find_rejectable,
    find_revivable,
    find_waiting,
    list_waiting,
)
from lessons_loop.promote.proof.proving import as_recalled
from lessons_loop.promote.records import Actor, Archived, Decision, Verdict
from lessons_loop.promote.runs.drive import apply_resolution
from lessons_loop.promote.runs.report import Outcome
from lessons_loop.promote.session import GateSession
from lessons_loop.promote.similar.groups import Group
from lessons_loop.promote.similar.similarity import CONFLICT, DUPLICATE

ALREADY = "already"
"""Rule of an outcome that changed nothing."""


class Wanted(NamedTuple):
    """What a person wants."""

    decision: Decision
    reason: str
    actor: Actor
    supersede: str = ""
    """Id of a curated lesson that goes."""
    force: bool = False
    """Revive although a curated lesson says the same or the opposite."""
    rule: str = "person"
    """What the decision is filed under."""
    proven: frozenset[str] | None = None
    """Lessons it was measured for, see `as_recalled`; None: nobody measured."""
    figures: Mapping[str, Any] | None = None
    """What was measured."""


def decide(
    session: GateSession, prefixes: Sequence[str], wanted: Wanted, rules: Rules
) -> list[Outcome]:
    """Carry a decision out on named lessons; raise InvalidLesson, EmbedError, StoreError."""
    for prefix in prefixes:
        check_prefix(prefix)
    listing = list_waiting(session, rules)
    find = _finder(wanted.decision, listing)
    groups = {group.key: group for group in map(find, prefixes)}
    lessons = {as_recalled(group.lesson) for group in groups.values()}
    if wanted.proven is not None and not wanted.proven >= lessons:
        raise InvalidLesson("another wording came while the proof ran: nothing is done, run again")
    replaces = find_curated(session, wanted.supersede) if wanted.supersede else None
    cases = [listing.book.case(group) for group in groups.values()]
    standing = {case.group.key: _stands(session, case.group, wanted) for case in cases}
    for case in cases:
        if not standing[case.group.key]:
            _check(session, case, wanted, replaces)
    return [
        _left(case, wanted, why)
        if (why := standing[case.group.key])
        else _carry_out(session, case, wanted, replaces)
        for case in cases
    ]


def _finder(decision: Decision, listing: Listing) -> Callable[[str], Group]:
    if decision is Decision.DEMOTE:
        return partial(find_demotable, listing.book.session)
    finders = {
        Decision.REJECT: find_rejectable,
        Decision.HOLD: find_holdable,
        Decision.REVIVE: find_revivable,
    }
    return partial(finders.get(decision, find_waiting), listing)


def _stands(session: GateSession, group: Group, wanted: Wanted) -> str:
    """Return why nothing has to be done; empty: something has."""
    curated, decision = group.key in session.curated, wanted.decision
    if decision is Decision.REVIVE:
        return "is curated already" if curated else ""
    if curated or group.staged or decision is Decision.PROMOTE:
        return ""
    row = _latest(session, group.key)
    status = {
        Decision.HOLD: Status.HELD,
        Decision.REJECT: Status.REJECTED,
        Decision.DEMOTE: Status.STALE,
    }[decision]
    if row is None or row.status is not status:
        return ""
    by = next((line.actor for line in session.ledger.entries() if line.n == row.ledger_ref), None)
    if decision is Decision.HOLD and (by is None or by.kind != "human"):
        return ""  # a person's hold is more than a rule's
    return f"is {status.value} already, since {row.at[:10]}: {row.reason}"


def _latest(session: GateSession, key: str) -> Archived | None:
    rows = [row for row in session.archive.values() if row.lesson.key == key]
    return max(rows, key=lambda row: row.ledger_ref, default=None)


def _check(session: GateSession, case: Case, wanted: Wanted, replaces: Curated | None) -> None:
    """Raise InvalidLesson or EmbedError where the decision cannot be carried out."""
    if wanted.decision not in (Decision.PROMOTE, Decision.REVIVE):
        return
    if session.embedder is None:
        raise EmbedError(f"{NO_EMBEDDER}, nothing is promoted without one")
    key = case.group.key
    if bad := blocking(case.findings):
        raise InvalidLesson(f"lesson {key[:12]} cannot be promoted: {bad[0].sentence}")
    if key in session.curated:
        raise InvalidLesson(f"lesson {key[:12]} is curated already: `lessons reject` withdraws it")
    if not wanted.force and replaces is None:
        _refuse_rivals(session, case, wanted.decision)


def _refuse_rivals(session: GateSession, case: Case, decision: Decision) -> None:
    """Raise InvalidLesson where a curated lesson contradicts, or stands in a revived one's place.

    A promotion that repeats a curated lesson is counted there.
    """
    key, near = case.group.key, case.verdict.neighbour
    heirs = [row.key for row in session.curated.values() if row.supersedes == key]
    revived = decision is Decision.REVIVE
    if near is not None and near.relation in ((DUPLICATE, CONFLICT) if revived else (CONFLICT,)):
        rival, why = near.curated.key, RELATION_REASONS[near.relation]
    elif heirs and revived:
        rival, why = heirs[0], "was superseded by lesson {key}"
    else:
        return
    raise InvalidLesson(
        f"lesson {key[:12]} {why.format(key=rival[:12])}: give --supersede {rival[:12]} or --force"
    )


def _carry_out(
    session: GateSession, case: Case, wanted: Wanted, replaces: Curated | None
) -> Outcome:
    decision, present = wanted.decision, session.curated.get(case.group.key)
    withdrawn = decision is Decision.REJECT and present is not None
    rule = "withdrawn" if withdrawn else wanted.rule
    verdict = Verdict(decision, rule, wanted.reason, wanted.actor, case.verdict.neighbour)
    found = Resolution(
        group=case.group,
        verdict=verdict,
        findings=case.findings,
        at=iso(session.now()),
        by_rules=case.verdict,
        replaces=replaces,
        history=case.history,
        proof=wanted.figures,
    )
    if present is not None and withdrawn:
        session.apply(withdraw_change(present, found))
    elif present is not None and decision is Decision.DEMOTE:
        session.apply(demote_change(present, found))
    elif decision is Decision.REVIVE:
        vectors = session.embed([case.group.lesson.embedded_text])
        session.apply(revive_change(found, _before(session, case.group.key), vectors))
    else:
        apply_resolution(session, found)
    return Outcome(case, verdict, case.group.lesson)


def _before(session: GateSession, key: str) -> Curated | None:
    """Return the curated row a lesson last had."""
    rows = [row for row in session.archive.values() if row.lesson.key == key and row.curated]
    return max(rows, key=lambda row: row.ledger_ref).curated if rows else None


def _left(case: Case, wanted: Wanted, why: str) -> Outcome:
    verdict = Verdict(Decision.SKIP, ALREADY, why, wanted.actor, case.verdict.neighbour)
    return Outcome(case, verdict, case.group.lesson)
