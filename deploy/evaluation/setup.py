"""Agents of `lessons eval run`: the harness's own, an Open WebUI, the demo, a recording."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from lessons_loop.eval.runs.folder import RunFolder
from lessons_loop.eval.runs.record import AgentSource
from lessons_loop.eval.runs.replaying import replayed_harness
from lessons_loop.eval.runs.setup import PRACTICE_MODEL, AgentSettings, open_agent
from lessons_loop.eval.serving import serving
from lessons_loop.eval.trials import Agent, Arm
from lessons_loop.filter.address import public_url
from lessons_loop.filter.embed import Embedder
from lessons_loop.promote.masking import mask_through
from lessons_loop.promote.proof.proving import LessonSet
from lessons_loop.promote.quiet import busy

if TYPE_CHECKING:
    from lessons_loop.deploy.demo.practice_options import PracticeOptions
    from lessons_loop.deploy.evaluation.openwebui import Target

DEMO_DOMAIN = "sql"
DEMO_TOOLS = Path(__file__).parent.parent / "demo" / "sql_tool.py"


@dataclass(frozen=True)
class DemoParts:
    """What an evaluation needs, made for one run."""

    agent: AgentSettings
    store: str
    embedder: Embedder


@contextmanager
def demo_parts(error_rate: float, seed: int, *, bad_advice: bool = False) -> Iterator[DemoParts]:
    """Make a database, a seeded store and a practice model that errs; all go at the end.

    With `bad_advice` the model distills harm. Raises LessonsError.
    """
    from lessons_loop.deploy.demo.practice_options import PracticeOptions
    from lessons_loop.eval.judgements.packaged import evaluation_embedder

    with demo_database() as database:
        store, embedder = str(database.with_name("store")), evaluation_embedder("")
        _seed(store, embedder)
        with _practice_model(PracticeOptions(error_rate, seed, bad_advice)) as url:
            valves = {"database": str(database)}
            agent = AgentSettings(url, PRACTICE_MODEL, "", DEMO_TOOLS, valves, reference=database)
            yield DemoParts(agent, store, embedder)


@contextmanager
def demo_database() -> Iterator[Path]:
    """Yield the demo database in a folder of its own, which goes at the end."""
    from lessons_loop.deploy.demo.data import build_database

    with TemporaryDirectory(prefix="lessons-eval-") as folder:
        database = Path(folder) / "demo.sqlite"
        with busy("building the demo database"):
            build_database(database)
        yield database


def _seed(store: str, embedder: Embedder) -> None:
    from lessons_loop.promote.session import GateSettings
    from lessons_loop.seeds.commands import load_all, read_all

    found = read_all(DEMO_DOMAIN, None)
    list(load_all(found, [GateSettings(store, DEMO_DOMAIN, None, embedder)], False))


@contextmanager
def _practice_model(options: PracticeOptions) -> Iterator[str]:
    from lessons_loop.deploy.demo.practice_model import PracticeServer

    with serving(PracticeServer(0, None, options)) as server:
        yield server.url


def harness_source(settings: AgentSettings, error_rate: float | None = None) -> AgentSource:
    """Return the harness's own agent; raise NoAgent where the settings name none."""
    settings.require()
    told = {"kind": "harness", **settings.recorded()}
    if error_rate is not None:
        told["error_rate"] = error_rate

    def opened(
        lessons: LessonSet | None, folder: RunFolder, embedder: Embedder | None
    ) -> AbstractContextManager[Agent]:
        return open_agent(settings, lessons, folder.path, embedder)

    return AgentSource(told, opened, settings.practice, settings.tools is not None)


def openwebui_source(target: Target, state: Path, arms: Sequence[Arm]) -> AgentSource:
    """Return an Open WebUI with two accounts; `state` keeps their password."""
    told = {
        "kind": "openwebui",
        "url": public_url(target.url),
        "model": mask_through(target.model),
        "tools": ",".join(target.tools or ()),
        "system": mask_through(target.system),
    }

    def opened(
        lessons: LessonSet | None, folder: RunFolder, embedder: Embedder | None
    ) -> AbstractContextManager[Agent]:
        from lessons_loop.deploy.evaluation.openwebui import openwebui_agent

        return openwebui_agent(target, state, folder.path, arms)

    practice = target.model == PRACTICE_MODEL
    return AgentSource(told, opened, practice, uses_tools=False, recalls=False)


def recorded_source(folder: RunFolder) -> AgentSource:
    """Return the agent of a recorded run, answering from the record; raise LessonsError."""
    settings = folder.settings()
    told = dict(settings.get("agent") or {})

    @contextmanager
    def opened(
        lessons: LessonSet | None, into: RunFolder, embedder: Embedder | None
    ) -> Iterator[Agent]:
        if told.get("kind") == "openwebui":
            from lessons_loop.deploy.evaluation.openwebui_record import ReplayedAgent

            yield ReplayedAgent(folder.path)
            return
        with replayed_harness(folder) as agent:
            yield agent

    return AgentSource(
        told,
        opened,
        bool(settings.get("stand_in")),
        recalls=False,
        brought=settings.get("lessons"),
        kept=folder.kept_lessons(),
    )
