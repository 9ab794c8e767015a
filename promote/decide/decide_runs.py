"""Carry out and print what a person decided on named lessons."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote import render
from lessons_loop.promote.decide.decide import Wanted, decide
from lessons_loop.promote.proof.prove_render import proof_lines
from lessons_loop.promote.proof.proving import CHANGED, prover_for, state_of
from lessons_loop.promote.records import Actor, Decision
from lessons_loop.promote.runs.command_runs import (
    GateFlags,
    opened_gate,
    print_json,
    with_embedder,
)
from lessons_loop.promote.runs.pause import refuse_paused
from lessons_loop.promote.state import existing_store, locate

if TYPE_CHECKING:
    from lessons_loop.promote.proof.prove_named import NamedProof

TAKING_OUT = (Decision.REJECT, Decision.HOLD, Decision.DEMOTE)
"""Decisions after which no chat is told anything new."""


def decide_named(
    flags: GateFlags,
    ids: Sequence[str],
    word: tuple[str, str, str],
    supersede: str = "",
    force: bool = False,
) -> None:
    """Decide on the named lessons; `word`: the decision, its reason and who decides."""
    decision, reason, name = word
    actor = Actor(kind="human", name=name)
    wanted = Wanted(Decision(decision), reason, actor, supersede, force)
    existing_store(flags.store)
    flags = replace(flags, despite_pause=wanted.decision in TAKING_OUT)
    proof = None
    if flags.proof:
        flags = with_embedder(flags)
        proof = _proven(flags, ids, wanted)
        ids, wanted = proof.keys, proof.wanted
    with opened_gate(flags) as session:
        if proof and proof.state != state_of(session):
            raise LessonsError(CHANGED)
        outcomes = decide(session, ids, wanted, flags.rules())
        content = [outcome.as_dict() for outcome in outcomes]
    if flags.as_json:
        proven = {"proof": proof.result.as_dict()} if proof else {}
        print_json({"dry_run": flags.dry_run, "verdicts": content, **proven})
        return
    shown = [render.outcome_lines(outcome, would=flags.dry_run) for outcome in outcomes]
    lines = [line for pair in shown for line in pair]
    lines += proof_lines(proof.result if proof else None)
    framed = [render.DRY_RUN, *lines, render.DRY_RUN] if flags.dry_run else lines
    render.print_lines(render.make_console(), framed)


def _proven(flags: GateFlags, ids: Sequence[str], wanted: Wanted) -> NamedProof:
    """Have the decision proven on a copy; raise LessonsError, Paused."""
    from lessons_loop.promote.proof.prove_named import prove_named

    if not flags.dry_run:
        refuse_paused(locate(flags.store, flags.state_dir).state, os.environ)
    prover = prover_for(flags.proof)
    return prove_named(flags.settings(), ids, wanted, flags.rules(), prover, keep=not flags.dry_run)
