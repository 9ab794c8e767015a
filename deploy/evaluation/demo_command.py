"""`lessons eval demo`: all arms through a real Open WebUI, a verdict and a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lessons_loop.eval.runs.options import (
    AgentModel,
    Arms,
    JudgeKey,
    JudgeModel,
    JudgeUrl,
    Margin,
    MaxUnjudged,
    QuestionsFolder,
    Runs,
    Seed,
    Workers,
)
from lessons_loop.promote.options import AsJson

Out = Annotated[
    Path | None,
    typer.Option(show_default=False, help="Folder of the run; default: below lessons-eval."),
]
ErrorRate = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Share of answers the script gets wrong.")
]
OpenPage = Annotated[
    bool, typer.Option("--open/--no-open", help="Open the page, where there is a screen.")
]


def register(group: typer.Typer) -> None:
    """Add the command to the group `eval`."""
    group.command("demo", short_help="All arms in a real Open WebUI made here: minutes.")(demo)


def demo(
    questions: QuestionsFolder = "sql",
    arms: Arms = "off,on,placebo,aa",
    runs: Runs = 3,
    workers: Workers = 4,
    seed: Seed = 7,
    margin: Margin = 0.05,
    max_unjudged: MaxUnjudged = 0.2,
    agent_model: AgentModel = "",
    error_rate: ErrorRate = 0.2,
    judge_url: JudgeUrl = "",
    judge_model: JudgeModel = "",
    judge_key: JudgeKey = "",
    out: Out = None,
    open_page: OpenPage = True,
    as_json: AsJson = False,
) -> None:
    """Start an Open WebUI with the shipped lessons, ask the questions in all arms, say what helps.

    Models as in `lessons up`: OPENAI_API_BASE_URL and OPENAI_API_KEY, else a local Ollama,
    else a script that errs now and then: then it proves the machinery, not the benefit.
    All but the run's folder goes at the end.

    Example: lessons eval demo --runs 1 --arms off,on
    """
    from lessons_loop.deploy.evaluation.demo import Wish, run_eval_demo
    from lessons_loop.deploy.evaluation.run_options import RunOptions

    options = RunOptions(
        questions=questions,
        arms=arms,
        runs=runs,
        workers=workers,
        seed=seed,
        margin=margin,
        max_unjudged=max_unjudged,
        agent_model=agent_model,
        error_rate=error_rate,
        judge_url=judge_url,
        judge_model=judge_model,
        judge_key=judge_key,
        demo=True,
    )
    run_eval_demo(Wish(options, out, open_page, as_json))
