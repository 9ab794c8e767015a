"""A person's promotion by id that has to prove itself first, see `prove_batch`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from lessons_loop.promote.decide.decide import Wanted, decide
from lessons_loop.promote.gate import Rules
from lessons_loop.promote.proof.prove_batch import RULE, proven_by
from lessons_loop.promote.proof.proving import (
    PROOF,
    ProofResult,
    Prover,
    as_recalled,
    lesson_set_of,
    state_of,
)
from lessons_loop.promote.records import Decision
from lessons_loop.promote.session import GateSettings, open_gate


class NamedProof(NamedTuple):
    """What a rehearsed decision came to."""

    result: ProofResult
    wanted: Wanted
    """The decision as it is to be carried out: as wanted, or a hold."""
    keys: tuple[str, ...]
    """The lessons it is about."""
    state: tuple[tuple[str, ...], ...]
    """What stood in the store, see `state_of`."""


def prove_named(
    settings: GateSettings,
    prefixes: Sequence[str],
    wanted: Wanted,
    rules: Rules,
    prover: Prover,
    *,
    keep: bool = True,
) -> NamedProof:
    """Try the decision on a copy and have it proven; raise LessonsError, nothing is written."""
    with open_gate(replace(settings, dry_run=True)) as session:
        state, before = state_of(session), lesson_set_of(session)
        lessons = [one.case.group.lesson for one in decide(session, prefixes, wanted, rules)]
        after = lesson_set_of(session)
    result, _ = proven_by(prover, settings, before, after, keep=keep)
    keys = tuple(lesson.key for lesson in lessons)
    measured = frozenset(map(as_recalled, lessons))
    return NamedProof(result, _after_proof(wanted, result, measured), keys, state)


def _after_proof(wanted: Wanted, result: ProofResult, measured: frozenset[str]) -> Wanted:
    told = wanted._replace(proven=measured, figures=result.figures)
    if result.passed:
        return told._replace(reason=f"{wanted.reason}; {result.reason}")
    return Wanted(
        Decision.HOLD, result.reason, RULE, rule=PROOF, proven=measured, figures=result.figures
    )
