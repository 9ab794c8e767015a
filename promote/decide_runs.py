"""Carry out and print what a person decided on named lessons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lessons_loop.promote import render
from lessons_loop.promote.command_runs import GateFlags, opened_gate, print_json
from lessons_loop.promote.decide import Wanted, decide
from lessons_loop.promote.records import Actor, Decision
from lessons_loop.promote.state import existing_store

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
    with opened_gate(flags) as session:
        outcomes = decide(session, ids, wanted, flags.rules())
        content = [outcome.as_dict() for outcome in outcomes]
    if flags.as_json:
        print_json({"dry_run": flags.dry_run, "verdicts": content})
        return
    shown = [render.outcome_lines(outcome, would=flags.dry_run) for outcome in outcomes]
    lines = [line for pair in shown for line in pair]
    framed = [render.DRY_RUN, *lines, render.DRY_RUN] if flags.dry_run else lines
    render.print_lines(render.make_console(), framed)
