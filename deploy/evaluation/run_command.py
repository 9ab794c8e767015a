"""`lessons eval run`: questions, arms, a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lessons_loop.eval.runs.options import (
    AgentKey,
    AgentModel,
    AgentSeconds,
    AgentUrl,
    Arms,
    Judge,
    JudgeKey,
    JudgeModel,
    JudgeUrl,
    Margin,
    MaxUnjudged,
    OptionalStore,
    QuestionsFolder,
    ReferenceDb,
    Runs,
    Seed,
    SystemText,
    ToolsFile,
    ToolValves,
    Workers,
)
from lessons_loop.promote.options import AsJson, Embedding, StateDir

RunDomain = Annotated[
    str,
    typer.Option("--domain", show_default=False, help="Of the lessons; default: the questions'."),
]
Out = Annotated[
    Path | None,
    typer.Option(help="Folder of the run; default: in the state directory, or ./lessons-eval."),
]
Resume = Annotated[
    Path | None, typer.Option(help="Folder of a run that was interrupted: go on with it.")
]
Replay = Annotated[
    Path | None, typer.Option(help="Folder of a run: answer from its record, ask no model.")
]
OpenWebUI = Annotated[
    str,
    typer.Option("--openwebui", show_default=False, help="Ask this Open WebUI instead, by URL."),
]
AdminEmail = Annotated[
    str, typer.Option("--admin-email", show_default=False, help="Who makes its two accounts.")
]
AdminPassword = Annotated[
    str,
    typer.Option(
        "--password",
        envvar="LESSONS_EVAL_PASSWORD",
        show_default=False,
        help="The admin's password; better in the env.",
    ),
]
Token = Annotated[
    str,
    typer.Option(
        "--token",
        envvar=["LESSONS_OPENWEBUI_TOKEN", "OPENWEBUI_TOKEN"],
        show_default=False,
        help="Instead of a password; better in the env.",
    ),
]
ToolIds = Annotated[
    str,
    typer.Option(
        "--tool-ids", show_default=False, help="Comma list of Open WebUI's tools; default: all."
    ),
]
Demo = Annotated[
    bool, typer.Option("--demo", help="Make all it needs here: database, lessons, a script.")
]
ErrorRate = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Share of answers the demo's script gets wrong.")
]


def register(group: typer.Typer) -> None:
    """Add the command to the group `eval`."""
    group.command("run", short_help="Whether lessons help: with and without them.")(run)


def run(
    context: typer.Context,
    questions: QuestionsFolder = "sql",
    arms: Arms = "off,on",
    runs: Runs = 3,
    workers: Workers = 4,
    seed: Seed = 7,
    margin: Margin = 0.05,
    max_unjudged: MaxUnjudged = 0.2,
    out: Out = None,
    resume: Resume = None,
    replay: Replay = None,
    store: OptionalStore = "",
    domain: RunDomain = "",
    state_dir: StateDir = None,
    embedding: Embedding = "",
    agent_url: AgentUrl = "",
    agent_model: AgentModel = "",
    agent_key: AgentKey = "",
    agent_seconds: AgentSeconds = 120.0,
    tools: ToolsFile = None,
    tool_valves: ToolValves = "",
    reference_db: ReferenceDb = None,
    system: SystemText = "",
    openwebui: OpenWebUI = "",
    admin_email: AdminEmail = "",
    password: AdminPassword = "",
    token: Token = "",
    tool_ids: ToolIds = "",
    judge: Judge = "",
    judge_url: JudgeUrl = "",
    judge_model: JudgeModel = "",
    judge_key: JudgeKey = "",
    demo: Demo = False,
    error_rate: ErrorRate = 0.2,
    as_json: AsJson = False,
) -> None:
    """Ask held-out questions with and without lessons, and say whether they help.

    The store is only copied. Every request and reply is kept in the run's folder; what
    breaks off goes on with --resume. Exit code 1: it broke off, or too much is unjudged.

    Example: lessons eval run --demo
    """
    if sum(given is not None for given in (out, resume)) > 1:
        raise typer.BadParameter("--out and --resume exclude each other")
    if resume is not None and replay is not None:
        raise typer.BadParameter("--resume and --replay exclude each other")
    if demo and openwebui.strip():
        raise typer.BadParameter("--demo and --openwebui exclude each other")
    from lessons_loop.deploy.evaluation.run import Places, carry_out
    from lessons_loop.deploy.evaluation.run_options import given_options, replayed_by
    from lessons_loop.eval.runs.folder import RunFolder

    out, resume, replay = (_whole(one) for one in (out, resume, replay))
    record = resume or replay
    begun = RunFolder(record) if record is not None else None
    replay = replay or replayed_by(begun)
    options = given_options(context, begun, own_questions=replay is not None)
    carry_out(options, Places(out, resume, replay), as_json=as_json)


def _whole(given: Path | None) -> Path | None:
    return given.expanduser().absolute() if given else None
