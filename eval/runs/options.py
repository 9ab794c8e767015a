"""Options of the commands that ask an agent, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

QuestionsFolder = Annotated[
    str,
    typer.Option(
        "--questions", help="Folder of question files, or the name of a shipped one: sql."
    ),
]
OptionalStore = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="LESSONS_STORE",
        show_default=False,
        help="Folder of the lesson store, or a Chroma server's URL; copied, never changed.",
    ),
]
Arms = Annotated[
    str, typer.Option("--arms", help="Comma list of off, on, placebo, aa (off, twice).")
]
Runs = Annotated[int, typer.Option(min=1, max=100, help="How often each question is asked.")]
Workers = Annotated[int, typer.Option(min=1, max=64, help="Questions asked at the same time.")]
Seed = Annotated[int, typer.Option(min=0, help="Order and requests follow from it.")]
Margin = Annotated[
    float,
    typer.Option(min=0.0, max=0.5, help="Lift that would not matter, 0.05: five points."),
]
MaxUnjudged = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Share of unjudged answers that is borne.")
]
AgentUrl = Annotated[
    str,
    typer.Option(
        "--agent-url",
        envvar="LESSONS_EVAL_URL",
        show_default=False,
        help="OpenAI-compatible URL of the model that answers.",
    ),
]
AgentModel = Annotated[
    str,
    typer.Option(
        "--agent-model", envvar="LESSONS_EVAL_MODEL", show_default=False, help="Its name there."
    ),
]
AgentKey = Annotated[
    str,
    typer.Option(
        "--agent-key",
        envvar="LESSONS_EVAL_API_KEY",
        show_default=False,
        help="Its key; better in the env.",
    ),
]
AgentSeconds = Annotated[
    float,
    typer.Option("--agent-seconds", min=1.0, max=86_400.0, help="Time limit of one request."),
]
ToolsFile = Annotated[
    Path | None,
    typer.Option(
        "--tools",
        envvar="LESSONS_EVAL_TOOLS",
        show_default=False,
        help="Tool file as pasted into Open WebUI: your own code, it is run here.",
    ),
]
ToolValves = Annotated[
    str,
    typer.Option(
        "--tool-valves",
        envvar="LESSONS_EVAL_TOOL_VALVES",
        show_default=False,
        help="Its valves, one JSON object.",
    ),
]
ReferenceDb = Annotated[
    Path | None,
    typer.Option(
        "--reference-db",
        envvar="LESSONS_EVAL_DATABASE",
        show_default=False,
        help="SQLite file that sql_result checks ask; opened read-only.",
    ),
]
SystemText = Annotated[str, typer.Option("--system", help="System prompt of the agent.")]
Judge = Annotated[
    str,
    typer.Option(
        "--judge", show_default=False, help="manual: you grade in this terminal, arms hidden."
    ),
]
JudgeUrl = Annotated[
    str,
    typer.Option(
        "--judge-url",
        envvar="LESSONS_LLM_URL",
        show_default=False,
        help="OpenAI-compatible URL of the model that judges.",
    ),
]
JudgeModel = Annotated[
    str,
    typer.Option(
        "--judge-model", envvar="LESSONS_LLM_MODEL", show_default=False, help="Its name there."
    ),
]
JudgeKey = Annotated[
    str,
    typer.Option(
        "--judge-key",
        envvar="LESSONS_LLM_API_KEY",
        show_default=False,
        help="Its key; better in the env.",
    ),
]
