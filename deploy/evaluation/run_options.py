"""What `lessons eval run` was given, and what a run that goes on takes from its record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from pydantic import Field, ValidationError

from lessons_loop.eval.question_set import shipped_sets
from lessons_loop.eval.runs.folder import OtherRun, RunFolder
from lessons_loop.eval.runs.setup import AGENT_SECONDS, AgentSettings, JudgeSettings, agent_settings
from lessons_loop.filter.address import public_url
from lessons_loop.filter.models import FrozenModel
from lessons_loop.promote.masking import mask_through

SECRETS = frozenset({"agent_key", "judge_key", "tool_valves", "token", "password"})
"""Never recorded: a run that goes on has to be given them again."""
ADDRESSES = frozenset({"agent_url", "judge_url", "store", "openwebui"})


class RunOptions(FrozenModel):
    """The options of one run, each under its parameter's name."""

    questions: str = "sql"
    arms: str = "off,on"
    runs: int = 3
    workers: int = 4
    seed: int = 7
    margin: float = 0.05
    max_unjudged: float = 0.2
    store: str = ""
    domain: str = ""
    """Empty: the question set's."""
    state_dir: str = ""
    embedding: str = ""
    agent_url: str = ""
    agent_model: str = ""
    agent_key: str = Field(default="", repr=False)
    agent_seconds: float = AGENT_SECONDS
    tools: str = ""
    tool_valves: str = Field(default="", repr=False)
    reference_db: str = ""
    system: str = ""
    openwebui: str = ""
    admin_email: str = ""
    token: str = Field(default="", repr=False)
    password: str = Field(default="", repr=False)
    tool_ids: str = ""
    judge: str = ""
    judge_url: str = ""
    judge_model: str = ""
    judge_key: str = Field(default="", repr=False)
    demo: bool = False
    error_rate: float = 0.2

    def recorded(self) -> dict[str, Any]:
        """Return what a run that goes on needs: JSON values, no secret."""
        found = self.model_dump(exclude=set(SECRETS))
        for name in ADDRESSES:
            found[name] = public_url(found[name])
        for name in ("system", "admin_email"):
            found[name] = mask_through(found[name])
        return found

    def agent(self) -> AgentSettings:
        """Return the harness agent's settings; raise LessonsError for files that are not there."""
        return agent_settings(
            self.agent_url,
            self.agent_model,
            self.agent_key,
            tools=self.tools,
            tool_valves=self.tool_valves,
            reference=self.reference_db,
            system=self.system,
            seconds=self.agent_seconds,
        )

    def judging(self) -> JudgeSettings:
        """Return who judges; a usage error for a word that names nobody."""
        name = self.judge.strip().lower()
        if name not in ("", "manual", "none"):
            raise typer.BadParameter("--judge is manual, none, or left out: --judge-url asks one")
        if name:
            return JudgeSettings(manual=name == "manual")
        url, model = self.judge_url.strip(), self.judge_model.strip()
        if bool(url) != bool(model):
            raise typer.BadParameter("--judge-url and --judge-model go together")
        return JudgeSettings(url, model, self.judge_key)


def given_options(
    context: typer.Context, record: RunFolder | None, *, own_questions: bool = False
) -> RunOptions:
    """Return the command line's options; what it leaves open comes from a record.

    With `own_questions` it has none where the command line names none: the record's own then.
    Raises OtherRun where that cannot be read.
    """
    names = set(RunOptions.model_fields)
    given = {name: value for name, value in context.params.items() if name in names}
    found = record.settings().get("command") if record is not None else {}
    found = found if isinstance(found, dict) else {}
    for name in names.intersection(found) - SECRETS:
        if _left_open(context, name):
            given[name] = found[name]
    told = {name: _plain(value) for name, value in given.items()}
    if own_questions and _left_open(context, "questions"):
        told["questions"] = ""
    elif told["questions"] not in shipped_sets():  # it may be started from elsewhere next time
        told["questions"] = str(Path(told["questions"]).expanduser().absolute())
    try:
        return RunOptions.model_validate(told)
    except ValidationError:
        raise OtherRun(
            f"{record.settings_file if record else 'the options'} cannot be read"
        ) from None


def replayed_by(record: RunFolder | None) -> Path | None:
    """Return the run that an interrupted replay answers from, None where it is no replay."""
    if record is None:
        return None
    command = record.settings().get("command")
    place = command.get("replay") if isinstance(command, dict) else ""
    return Path(str(place)) if place else None


def _left_open(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is None or source.name in ("DEFAULT", "DEFAULT_MAP")


def _plain(value: Any) -> Any:
    if value is None:
        return ""
    return str(value.expanduser().absolute()) if isinstance(value, Path) else value
