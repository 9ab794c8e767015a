"""Figures of the collapse test: the pass rate's change over the rounds, in points.

A script stands in for agent and distiller: this proves the machinery, not the benefit.
"""

from __future__ import annotations

from lessons_loop.deploy.bench.figures import Figure, single
from lessons_loop.deploy.evaluation.collapse_command import DOMAIN, collapse_figures
from lessons_loop.eval.question_set import questions_folder, read_question_set

CHATS, ERROR_RATE, SEED = 30, 0.1, 7


def collapse_bench(rounds: int = 5, most: int | None = None) -> list[Figure]:
    """Return the change with the gate and without it; `most` questions at most."""
    found = read_question_set(questions_folder(DOMAIN))
    asked = tuple(one for one in found.questions if not one.control)[:most]
    some = found.model_copy(update={"questions": asked})
    figures = collapse_figures(some, rounds, CHATS, ERROR_RATE, SEED, proof=True)
    changes = [figures[name]["change_points"] for name in ("with_gate", "without_gate")]
    return [
        single(f"collapse, {rounds} rounds: with the gate", changes[0], ">= -1.5 points", ""),
        single(f"collapse, {rounds} rounds: without it", changes[1], "falls visibly", ""),
    ]
