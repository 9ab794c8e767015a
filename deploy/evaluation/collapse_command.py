"""`lessons eval collapse`: whether the loop holds when its distiller is bad."""

from __future__ import annotations

import contextlib
import io
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lessons_loop.eval.runs.options import QuestionsFolder, Seed
from lessons_loop.promote.options import AsJson

if TYPE_CHECKING:
    from lessons_loop.eval.collapse.rounds import Batch, Collapse, Decide, Round
    from lessons_loop.eval.question_set import EvalQuestion, QuestionSet
    from lessons_loop.eval.runs.setup import AgentSettings
    from lessons_loop.promote.proof.proving import Prover

DOMAIN = "sql"
Rounds = Annotated[int, typer.Option(min=1, max=50, help="How often the loop goes round.")]
Chats = Annotated[
    int, typer.Option(min=1, max=1000, help="Questions each user chats about in a round.")
]
ErrorRate = Annotated[
    float, typer.Option(min=0.0, max=0.5, help="Share of answers the script gets wrong.")
]
Proof = Annotated[
    bool, typer.Option("--proof/--no-proof", help="Let the gate prove each batch; else rules only.")
]
Page = Annotated[Path | None, typer.Option("--html", help="Write a page with the plot there.")]


def register(group: typer.Typer) -> None:
    """Add the command to the group `eval`."""
    group.command("collapse", short_help="A bad distiller, with the gate and without.")(collapse)


def collapse(
    questions: QuestionsFolder = DOMAIN,
    rounds: Rounds = 5,
    chats: Chats = 30,
    error_rate: ErrorRate = 0.1,
    seed: Seed = 7,
    proof: Proof = True,
    html: Page = None,
    as_json: AsJson = False,
) -> None:
    """Let a bad distiller teach the demo's script, once with the gate and once without it.

    All of it happens in a temporary folder: database, seeded stores, real filter and gate.
    Exit code 1: the pass rate fell by more than 1.5 points although the gate was there.

    Example: lessons eval collapse --rounds 2
    """
    from lessons_loop.eval.collapse.render import collapse_lines, collapsed, render_page
    from lessons_loop.eval.question_set import questions_folder, read_question_set
    from lessons_loop.eval.showing import print_figures
    from lessons_loop.promote.files import file_errors

    found = read_question_set(questions_folder(questions))
    target = html.expanduser().absolute() if html is not None else None
    if target is not None:
        with file_errors("the page"):
            target.open("a").close()  # now, not after minutes of work
    figures = collapse_figures(found, rounds, chats, error_rate, seed, proof=proof)
    if target is not None:
        with file_errors(target):
            target.write_text(render_page(figures), "utf-8")
    print_figures(figures, as_json, collapse_lines)
    if collapsed(figures):
        raise typer.Exit(1)


def collapse_figures(
    questions: QuestionSet, rounds: int, chats: int, error_rate: float, seed: int, *, proof: bool
) -> dict[str, Any]:
    """Run both loops; raise LessonsError."""
    from lessons_loop.deploy.evaluation.setup import demo_parts
    from lessons_loop.eval.collapse.chats import Distiller
    from lessons_loop.eval.collapse.rounds import USERS, Collapse, split, summary
    from lessons_loop.eval.shelf import known_texts

    asked = tuple(one for one in questions.questions if not one.control)
    taught, held_out = split(asked)
    with demo_parts(error_rate, seed, bad_advice=True) as parts:
        wish = Collapse(
            asked,
            parts.agent,
            Distiller(parts.agent.url, parts.agent.model),
            known_texts(parts.embedder),
            DOMAIN,
            rounds,
            chats,
            seed,
            _prover(parts.agent, held_out) if proof else None,
        )
        courses = _courses(wish, Path(parts.store))
    settings = {
        "questions": len(asked),
        "taught": len(taught),
        "held_out": len(held_out),
        "users": len(USERS),
        **{"rounds": rounds, "chats": chats, "error_rate": error_rate, "seed": seed},
        "proof": proof,
    }
    return {"settings": settings, **summary(*courses)}


def _courses(wish: Collapse, seeded: Path) -> list[list[Round]]:
    """Go through the rounds on two copies of a seeded store."""
    from lessons_loop.eval.collapse.rounds import by_the_gate, run_rounds, without_gate
    from lessons_loop.eval.showing import progress_bar

    found = []
    with progress_bar("rounds", 2 * (wish.rounds + 1)) as step:
        for name, decide in (("gated", _quietly(by_the_gate)), ("ungated", without_gate)):
            store = seeded.with_name(name)
            shutil.copytree(seeded, store)
            found.append(run_rounds(wish, store, decide, lambda _: step()))
    return found


def _prover(agent: AgentSettings, held_out: Sequence[EvalQuestion]) -> Prover:
    """Return what proves the gate's batches: the questions no chat was about."""
    from lessons_loop.eval.proving.prover import prover_of
    from lessons_loop.eval.question_set import QuestionSet, digest_of
    from lessons_loop.eval.runs.setup import JudgeSettings

    kept = QuestionSet(domain=DOMAIN, questions=tuple(held_out), digest=digest_of(held_out))
    return prover_of(agent, JudgeSettings(), kept)


def _quietly(decide: Decide) -> Decide:
    """Return the same without the lines a proof writes about its own progress."""

    def quiet(wish: Collapse, store: Path) -> Batch:
        with contextlib.redirect_stderr(io.StringIO()):
            return decide(wish, store)

    return quiet
