"""What answers and grades in an evaluation, as the settings name it.

`open_agent` gives the harness's own agent, `open_grader` what judges its answers. Secrets
stand in no repr and in nothing that is recorded.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lessons_loop.eval.question_set import EvalQuestion
from lessons_loop.eval.trials import Answer, Grade
from lessons_loop.filter.address import public_url
from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.masking import mask_through

if TYPE_CHECKING:
    from lessons_loop.eval.agent.http import HarnessAgent
    from lessons_loop.filter.embed import Embedder
    from lessons_loop.promote.proof.proving import LessonSet

Grader = Callable[[EvalQuestion, Answer], tuple[Grade, str, str]]
"""Returns the grade, why, and who graded."""
Rows = list[tuple[Any, ...]]
AGENT_SECONDS = 120.0
REFERENCE_SECONDS = 30.0
PRACTICE_MODEL = "practice-model"
NO_AGENT = "no agent: give --agent-url and --agent-model (LESSONS_EVAL_URL, LESSONS_EVAL_MODEL)"
NEEDS_JUDGE = "only a judge can decide: give --judge-url and --judge-model, or --judge manual"


class NoAgent(LessonsError):
    """The settings name no agent that could be asked."""


@dataclass(frozen=True)
class AgentSettings:
    """The harness's own agent: which model, with which tools."""

    url: str = ""
    """OpenAI-compatible, with or without `/v1`."""
    model: str = ""
    key: str = field(default="", repr=False)
    tools: Path | None = None
    """A tool file as an admin pastes it into Open WebUI: code that is run here."""
    tool_valves: Mapping[str, Any] = field(default_factory=dict, repr=False)
    reference: Path | None = None
    """SQLite database that `sql_result` checks ask."""
    system: str = ""
    """The model's own system prompt."""
    seconds: float = AGENT_SECONDS
    """Limit of one request, its repeats included."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> AgentSettings:
        """Return what LESSONS_EVAL_* name; raise LessonsError for what cannot be read."""
        found = os.environ if environ is None else environ
        return agent_settings(
            found.get("LESSONS_EVAL_URL", ""),
            found.get("LESSONS_EVAL_MODEL", ""),
            found.get("LESSONS_EVAL_API_KEY", ""),
            tools=found.get("LESSONS_EVAL_TOOLS", ""),
            tool_valves=found.get("LESSONS_EVAL_TOOL_VALVES", ""),
            reference=found.get("LESSONS_EVAL_DATABASE", ""),
        )

    @property
    def practice(self) -> bool:
        """Whether a script stands in for the model."""
        return self.model == PRACTICE_MODEL

    def require(self) -> AgentSettings:
        """Return the settings; raise NoAgent where they name none."""
        if not (self.url and self.model):
            raise NoAgent(NO_AGENT)
        return self

    def recorded(self) -> dict[str, Any]:
        """Return what a record tells of it: JSON values, masked, no key and no valve's value."""
        return {
            "url": public_url(self.url),
            "model": mask_through(self.model),
            "tools": self.tools.name if self.tools else "",
            "tools_digest": digest_of_file(self.tools),
            "tool_valves": sorted(self.tool_valves),
            "system": mask_through(self.system),
            "system_digest": hashlib.sha256(self.system.encode()).hexdigest()[:12],
        }


@dataclass(frozen=True)
class JudgeSettings:
    """Who decides where no check can."""

    url: str = ""
    model: str = ""
    key: str = field(default="", repr=False)
    manual: bool = False
    """A person in the terminal, after the run."""

    @property
    def name(self) -> str:
        """How records call it, empty for nobody."""
        return "manual" if self.manual else self.model


def agent_settings(
    url: str,
    model: str,
    key: str = "",
    *,
    tools: str | Path | None = "",
    tool_valves: str = "",
    reference: str | Path | None = "",
    system: str = "",
    seconds: float = AGENT_SECONDS,
) -> AgentSettings:
    """Return the settings as given on a command line, checked; raise LessonsError."""
    return AgentSettings(
        url.strip(),
        model.strip(),
        key.strip(),
        _file(tools, "--tools"),
        _valves(tool_valves),
        _file(reference, "--reference-db"),
        system,
        seconds,
    )


def _file(given: str | Path | None, option: str) -> Path | None:
    place = str(given or "").strip()
    if not place:
        return None
    path = Path(place).expanduser()
    if not path.is_file():
        raise LessonsError(f"{option}: no such file: {path}")
    return path


def _valves(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise LessonsError('--tool-valves must be one JSON object, such as {"row_limit": 100}')
    return found


def digest_of_file(path: Path | None) -> str:
    """Return the first 12 digits of a file's sha256, empty for none; raise LessonsError."""
    if path is None:
        return ""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    except OSError as error:
        raise LessonsError(f"{path} cannot be read: {error.strerror}") from None


@contextmanager
def open_agent(
    settings: AgentSettings,
    found: LessonSet | None,
    folder: Path | None,
    embedder: Embedder | None = None,
) -> Iterator[HarnessAgent]:
    """Yield the harness's agent with these lessons; raise LessonsError.

    `folder` gets every request and reply.
    """
    from lessons_loop.eval.agent.http import HarnessAgent
    from lessons_loop.eval.agent.tools import load_tools
    from lessons_loop.eval.agent.wire import ChatWire, HttpWire, RecordingWire
    from lessons_loop.eval.shelf import Shelf

    shelf = Shelf(found, embedder) if found is not None else None
    tools = load_tools(settings.tools, settings.tool_valves) if settings.tools else None
    settings.require()
    wire: ChatWire = HttpWire(settings.url, settings.key, settings.seconds)
    if folder is not None:
        wire = RecordingWire(wire, folder)
    yield HarnessAgent(wire, settings.model, shelf, tools, settings.system)


def open_grader(settings: AgentSettings, judge: JudgeSettings | None = None) -> Grader:
    """Return what grades an answer: the checks, and a judge where only one can decide.

    Called from several threads. A person judges after the run: until then such an answer is
    UNJUDGED.
    """
    from lessons_loop.eval.grading.answer_judge import ModelJudge, grade
    from lessons_loop.filter.llm import HttpModel

    reference = reference_rows(settings.reference) if settings.reference else None
    asked = None
    if judge is not None and judge.url and judge.model and not judge.manual:
        asked = ModelJudge(HttpModel(judge.url, judge.model, judge.key, AGENT_SECONDS))

    def graded(question: EvalQuestion, answer: Answer) -> tuple[Grade, str, str]:
        return grade(question, answer, reference, asked)

    return graded


def reference_rows(database: Path) -> Callable[[str], Rows]:
    """Return what runs one query on the reference database, read-only; it raises LessonsError."""

    def rows(query: str) -> Rows:
        with _opened(database) as connection:
            try:
                return connection.execute(query).fetchall()
            except sqlite3.Error as error:
                raise LessonsError(f"the reference query failed: {error}") from None

    return rows


@contextmanager
def _opened(database: Path) -> Iterator[sqlite3.Connection]:
    place = f"{database.absolute().as_uri()}?mode=ro"
    try:
        connection = sqlite3.connect(place, uri=True, timeout=REFERENCE_SECONDS)
    except sqlite3.Error as error:
        raise LessonsError(f"{database} cannot be read: {error}") from None
    with closing(connection):
        yield connection
