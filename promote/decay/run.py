"""Take lessons that stopped helping out of curated, or propose it: the effects of decay.

A demoted lesson stands in the archive as stale, with its counters, numbers and cause, and
can be revived; then only uses since count. Seeds and taught lessons are proposed: a person
wrote them, a person takes them out (`lessons demote ID --reason …`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from lessons_loop.filter.models import Curated, Status
from lessons_loop.promote.clock import iso
from lessons_loop.promote.decay.rules import (
    DecayRules,
    Judgement,
    Standing,
    State,
    judgements,
    standings,
)
from lessons_loop.promote.ledger.past import TAKES_IN
from lessons_loop.promote.records import Action, Actor, Archived, Change
from lessons_loop.promote.session import GateSession

DECAY = Actor(kind="rule", name="decay")


class DecayReport(NamedTuple):
    """What decay did, or would do."""

    demoted: tuple[Standing, ...] = ()
    proposed: tuple[Standing, ...] = ()
    """Failing seeds and taught lessons: a person decides."""
    watched: tuple[Standing, ...] = ()
    """Under floor and base, but perhaps by chance: a person is told."""
    texts: Mapping[str, Curated] = {}
    """The lessons themselves, by key."""

    def as_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values."""
        parts = {"demoted": self.demoted, "proposed": self.proposed, "watched": self.watched}
        return {name: [plain(one) for one in found] for name, found in parts.items()}


def demote_stale(session: GateSession, rules: DecayRules, *, write: bool) -> DecayReport:
    """Demote what is failing, where `write`; raise StoreError with earlier ones demoted."""
    found = sorted(records(session, rules), key=lambda one: (one.bounds[1], one.key))
    failing = [one for one in found if one.state is State.FAILING]
    watched = [one for one in found if one.state is State.WATCHED]
    theirs = written_by_people(session) if failing else frozenset()
    mine = [one for one in failing if one.key not in theirs]
    texts = {one.key: session.curated[one.key] for one in (*failing, *watched)}
    for standing in mine if write else ():
        session.apply(demotion(session.curated[standing.key], standing, iso(session.now())))
    return DecayReport(
        tuple(mine),
        tuple(one for one in failing if one not in mine),
        tuple(watched),
        texts,
    )


def records(session: GateSession, rules: DecayRules | None = None) -> list[Standing]:
    """Return how each curated lesson did, in curated's order; one never judged is untested."""
    chosen = rules or DecayRules()
    words = judged_words(session, by_tools=chosen.by_tools)
    found = standings(words, chosen, demoted_before(session))
    nothing = "no judged use"
    return [
        found.get(key) or Standing(key, State.UNTESTED, 0, 0, 0, 0, 0, nothing)
        for key in session.curated
    ]


def judged_words(session: GateSession, *, by_tools: bool) -> list[Judgement]:
    """Return the judgements on curated lessons since each was promoted or last revived."""
    since = {key: row.since for key, row in session.curated.items()}
    for entry in session.ledger.entries():
        if entry.action == Action.REVIVE and entry.domain == session.domain and entry.key in since:
            since[entry.key] = max(since[entry.key], entry.at)
    return judgements(session.uses.judgeable(by_tools=by_tools), since, by_tools=by_tools)


def demoted_before(session: GateSession) -> frozenset[str]:
    """Return the stale lessons that are out of use: answers they were in are theirs."""
    gone = {row.lesson.key for row in session.archive.values() if row.status is Status.STALE}
    return frozenset(gone - set(session.curated))


def written_by_people(session: GateSession) -> frozenset[str]:
    """Return the seeds and taught lessons.

    A candidate may name any source: it counts where a person or a seed file let the lesson in.
    """
    let_in = {
        entry.key
        for entry in session.ledger.entries()
        if entry.action in TAKES_IN and entry.actor.kind in ("human", "seed")
    }
    return frozenset(
        row.key
        for row in session.curated.values()
        if row.seed_id or (row.lesson.source.startswith(("seed", "taught")) and row.key in let_in)
    )


def demotion(row: Curated, standing: Standing, at: str) -> Change:
    """Return the change that makes a lesson stale."""
    stale = row.lesson.model_copy(update={"status": Status.STALE})
    reason = f"decay: {standing.why}"
    payload: Mapping[str, object] = {
        "curated": row.model_dump(mode="json"),
        "record": plain(standing),
    }
    return Change(
        action=Action.DEMOTE,
        key=row.key,
        reason=reason,
        actor=DECAY,
        payload=dict(payload),
        remove=(row.key,),
        archive=(Archived(lesson=stale, reason=reason, at=at, curated=row),),
    )


def plain(standing: Standing) -> dict[str, Any]:
    """Return a standing as plain values."""
    low, high = standing.bounds
    rates = {"rate": standing.rate, "base_rate": standing.base_rate}
    bounds = {"low": round(low, 4), "high": round(high, 4)}
    return standing._asdict() | {"state": standing.state.value} | rates | bounds
