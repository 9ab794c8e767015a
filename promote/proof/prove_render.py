"""How proofs are told: lessons a measurement put out of use, and what a batch's proof said."""

from __future__ import annotations

from collections.abc import Sequence

from lessons_loop.promote.decay.harmful import HARMFUL, Harm
from lessons_loop.promote.proof.proving import ProofResult
from lessons_loop.promote.showing import plain


def harmful_lines(found: Sequence[Harm], *, would: bool) -> list[str]:
    """Return what a run held for a proof of its own, or would hold."""
    word = "would hold" if would else "held"
    return [
        line
        for harm in found
        for line in (
            f"{word:13} {harm.row.key[:12]}  {plain(harm.row.lesson.text)}",
            f"{'':14}{HARMFUL}: {plain(harm.told)}",
        )
    ]


def proof_lines(result: ProofResult | None) -> list[str]:
    """Return what the batch's proof said; nothing where none was asked for."""
    if result is None:
        return []
    word = "passed" if result.passed else "not passed, the batch is held"
    return [f"proof:     {word}: {plain(result.reason)}"]
