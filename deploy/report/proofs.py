"""What measurements say of single lessons, for the report's page."""

from __future__ import annotations

from lessons_loop.promote.proof.lesson_proof import points
from lessons_loop.promote.proof.summary import ProofSummary, ProvenLesson

HEAD = (
    "lesson", "verdict", "with it", "without", "lift", "95 %", "p", "asked", "model", "when", "text"
)  # fmt: skip


def proof_tile(found: ProofSummary) -> tuple[str, str, str]:
    """Return how many lessons are proven to help: number, name, note."""
    helps = found.counts.get("helps", 0)
    rest = [f"{count} {word}" for word, count in found.counts.items() if word != "helps"]
    note = ", ".join(rest) or ("no other was measured" if helps else "lessons eval lesson --all")
    return str(helps), "proven to help", note


def proof_cells(one: ProvenLesson) -> list[str]:
    """Return a measured lesson as cells, see `HEAD`."""
    proof = one.proof
    return [
        one.key[:12],
        proof.verdict,
        f"{proof.with_rate:.0%}",
        f"{proof.without_rate:.0%}",
        points(proof.lift),
        f"{points(proof.low)} to {points(proof.high)}",
        f"{proof.p:.2g}",
        f"{proof.questions} × {proof.runs}",
        proof.model,
        proof.at[:10],
        one.text,
    ]
