"""Store what was measured about single lessons, through the gate; counters and vectors stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lessons_loop.filter.models import Curated
from lessons_loop.promote.proof.lesson_proof import LessonProof
from lessons_loop.promote.records import Action, Actor, Change
from lessons_loop.promote.session import GateSession

EVAL = Actor(kind="rule", name="eval")


def store_proofs(
    session: GateSession, proofs: Sequence[tuple[Curated, LessonProof, Mapping[str, Any]]]
) -> list[str]:
    """Write proofs on their curated rows and return the keys; raise StoreError.

    Each comes with the row that was measured and the figures for the ledger. A lesson that left
    curated meanwhile, or is another one now, is passed over.
    """
    stored = []
    with session.batch():
        for measured, proof, figures in proofs:
            key, row = measured.key, session.curated.get(measured.key)
            if row is None or row.lesson != measured.lesson:
                continue
            put = row.model_copy(update={"proof": proof.model_dump_json()})
            reason = f"measured: {proof.verdict}: {proof.told()}"
            session.apply(Change(Action.PROVE, key, reason, EVAL, dict(figures), put=(put,)))
            stored.append(key)
    return stored
