"""`lessons eval`: how good recall, duplicates, distilling and the gate are, on files of cases."""

from __future__ import annotations

import typer

from lessons_loop.eval import (
    distill_command,
    gate_command,
    history_command,
    lesson_command,
    neardup_command,
    poison_command,
    recall_command,
    report_command,
)
from lessons_loop.promote.proving import Prover, register_prover


def register(app: typer.Typer) -> typer.Typer:
    """Add the command group `eval` to an app and return it, for commands of other parts."""
    group = typer.Typer(
        name="eval",
        help="Measure recall, near-duplicates, distilling and the gate on files of cases.",
        short_help="Measure how good recall, gate and distilling are.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.callback()(_group)
    distill_command.register(group)
    gate_command.register(group)
    history_command.register(group)
    lesson_command.register(group)
    neardup_command.register(group)
    poison_command.register(group)
    recall_command.register(group)
    report_command.register(group)
    app.add_typer(group)
    register_prover(_prover)
    return group


def _prover(questions: str) -> Prover:
    """Return what proves a batch on these questions; raise LessonsError."""
    from lessons_loop.eval.prover import make_prover

    return make_prover(questions)


def _group() -> None:
    """Measure recall, near-duplicates, distilling and the gate on files of cases."""
