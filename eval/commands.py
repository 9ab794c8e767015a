"""`lessons eval`: whether lessons help, what attacks reach, how good each judgement is."""

from __future__ import annotations

import typer

from lessons_loop.eval.judgements import (
    distill_command,
    gate_command,
    neardup_command,
    recall_command,
)
from lessons_loop.eval.poison import command as poison_command
from lessons_loop.eval.proving import lesson_command
from lessons_loop.eval.report import command as report_command
from lessons_loop.eval.runs import history_command
from lessons_loop.promote.proof.proving import Prover, register_prover


def register(app: typer.Typer) -> typer.Typer:
    """Add the command group `eval` to an app and return it, for commands of other parts."""
    group = typer.Typer(
        name="eval",
        help=_group.__doc__,
        short_help="Prove whether lessons help; measure recall, gate, distilling.",
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
    from lessons_loop.eval.proving.prover import make_prover

    return make_prover(questions)


def _group() -> None:
    """Prove whether lessons help, and measure each judgement of the loop.

    run, report, history, lesson: answers with and without lessons. poison, collapse: attacks
    and a bad distiller. recall, neardup, distill, gate: single judgements, on files of cases.
    """
