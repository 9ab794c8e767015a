"""Rows of whom was forgotten that were on their way then: every run drops them first."""

from __future__ import annotations

from lessons_loop.promote.forget.forgotten import Forgotten
from lessons_loop.promote.forget.survey import staged_records
from lessons_loop.promote.records import Action, Actor, Change
from lessons_loop.promote.session import GateSession


def drop_forgotten(session: GateSession) -> int:
    """Delete staged rows of whom was forgotten, which were on their way; return how many.

    Raises StoreError.
    """
    known = Forgotten.load(session.state)
    if not known:
        return 0
    candidates, events = (
        tuple(one.id for one in records if known.covers_row(one.metadata))
        for records in staged_records(session.store, session.domain)
    )
    if not (candidates or events):
        return 0
    count = len(candidates) + len(events)
    session.apply(
        Change(
            action=Action.FORGET,
            key="",
            reason=f"{count} rows of whom was forgotten came late and were dropped",
            actor=Actor(kind="rule", name="forgotten"),
            payload={"removed": {"candidates": len(candidates), "events": len(events)}},
            staged=candidates,
            events=events,
        )
    )
    return count
