"""Test tools for forgetting: a store with traces of two people everywhere."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from pathlib import Path

from lessons_loop.filter.events import Usage
from lessons_loop.filter.models import Candidate, Evidence, EvidenceKind, Status
from lessons_loop.filter.store import StorePaths, ensure_salt
from lessons_loop.promote.decay.fold import fold_events
from lessons_loop.promote.records import Action, Actor, Change
from lessons_loop.promote.session import GateSession
from support.gate import (
    archived,
    candidate,
    gate,
    promotion,
    server_url,
    stage,
    stage_usage,
)

ANNA, BERT = "user-anna-0001", "user-bert-0002"
CHAT = "chat-of-anna-1"
SECRET = "Anna asked for the turbine of hall seven"
"""Stands in every quote of hers."""
ALONE, SHARED = "Look serials up in equipment_machine.", "Bound every telemetry read by day_key."
HELD, OTHERS = "Cast the torque column before you sum it.", "Filter stock by plant before a join."
REJECTED = "Round pressures to two digits in reports."


def salted(root: Path) -> bytes:
    return ensure_salt(StorePaths(root / "state" if server_url(root) else root))


def ref(root: Path, identity: str) -> str:
    return hmac.new(salted(root), identity.encode(), hashlib.sha256).hexdigest()


def said(root: Path, text: str, user: str, message: str, chat: str = "") -> Candidate:
    quote = SECRET if user == ANNA else "3 rows from equipment_machine"
    proof = Evidence(kind=EvidenceKind.TOOL_SUCCESS, quote=quote, excerpt=f"[1] {quote}: ok")
    return candidate(
        text,
        user=ref(root, user),
        chat=ref(root, chat or f"chat-of-{user}"),
        message=hashlib.sha256(message.encode()).hexdigest(),
        evidence=proof,
    )


def used(root: Path, user: str, message: str, keys: tuple[str, ...]) -> Usage:
    return Usage(
        keys=keys,
        message_ref=hashlib.sha256(message.encode()).hexdigest(),
        user_ref=ref(root, user),
        chat_ref=ref(root, CHAT),
        at="2026-11-01T09:00:00Z",
    )


def hold(session: GateSession, *seen: Candidate, status: Status = Status.HELD) -> None:
    first, rest = seen[0], seen[1:]
    session.apply(
        Change(
            action=Action.HOLD if status is Status.HELD else Action.REJECT,
            key=first.lesson.key,
            reason="min-users: one user",
            actor=Actor(kind="rule", name="min-users")
            if status is Status.HELD
            else Actor(kind="human", name="alex"),
            payload={"candidates": [one.model_dump(mode="json") for one in seen]},
            archive=(archived(first.lesson, status, candidate=first, sightings=rest),),
            staged=tuple(one.id for one in seen),
        )
    )


def promoted(session: GateSession, *seen: Candidate) -> str:
    change = promotion(session, seen[0])
    row = change.put[0].model_copy(
        update={"occurrences": len(seen), "distinct_users": len({c.user_ref for c in seen})}
    )
    payload = {"candidates": [one.model_dump(mode="json") for one in seen], "sightings": len(seen)}
    session.apply(
        replace(change, payload=dict(payload), put=(row,), staged=tuple(c.id for c in seen))
    )
    return seen[0].lesson.key


def fill(root: Path) -> None:
    """Put Anna's traces everywhere, beside Bert's."""
    with gate(root):
        pass
    stage(root, [said(root, ALONE, ANNA, "m1", CHAT)])
    with gate(root) as session:
        alone = promoted(session, said(root, ALONE, ANNA, "m1", CHAT))
        shared = [said(root, SHARED, ANNA, "m2"), said(root, SHARED, BERT, "m3")]
        both = promoted(session, *shared)
        hold(session, said(root, HELD, ANNA, "m4"))
        hold(session, said(root, OTHERS, ANNA, "m5"), said(root, OTHERS, BERT, "m6"))
        hold(session, said(root, REJECTED, ANNA, "m7"), status=Status.REJECTED)
    stage_usage(root, "sql", [used(root, ANNA, "u1", (alone, both))])
    stage_usage(root, "sql", [used(root, BERT, "u2", (both,))])
    with gate(root) as session:
        fold_events(session)
    stage_usage(root, "sql", [used(root, ANNA, "u3", (both,))])
    stage(root, [said(root, "Sort by machine first.", ANNA, "m8")])
    stage(root, [said(root, "Sort by plant first.", BERT, "m9")])
