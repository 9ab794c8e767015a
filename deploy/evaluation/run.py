"""Carry out `lessons eval run`: bring the parts together, run, report.

Covered: harness agent, Open WebUI, the demo, a recording. Not covered: the parts themselves.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from lessons_loop.deploy.evaluation.run_hand import graded_by_hand
from lessons_loop.deploy.evaluation.run_options import RunOptions
from lessons_loop.deploy.evaluation.setup import (
    DEMO_DOMAIN,
    demo_database,
    demo_parts,
    harness_source,
    openwebui_source,
    recorded_source,
)
from lessons_loop.eval.grading.judge_manual import require_terminal
from lessons_loop.eval.question_set import QuestionSet, questions_folder, read_question_set
from lessons_loop.eval.runs.command import evaluate
from lessons_loop.eval.runs.folder import RunFolder
from lessons_loop.eval.runs.opening import say
from lessons_loop.eval.runs.record import AgentSource, Evaluation
from lessons_loop.eval.runs.runner import RunPlan, require_judged, share_unjudged
from lessons_loop.eval.runs.sets import parse_arms
from lessons_loop.eval.runs.setup import AgentSettings, agent_settings, open_grader
from lessons_loop.eval.shelf import copied_set, known_texts
from lessons_loop.filter.embed import Embedder
from lessons_loop.promote.clock import stamp, utc_now
from lessons_loop.promote.embedding.embedders import parse_embedding
from lessons_loop.promote.proof.proving import LessonSet
from lessons_loop.promote.quiet import busy
from lessons_loop.promote.state import clean_domain, state_of

if TYPE_CHECKING:
    from lessons_loop.deploy.evaluation.openwebui import Target

LOCAL_RUNS = "lessons-eval"


class Places(NamedTuple):
    """Folders named on the command line."""

    out: Path | None = None
    resume: Path | None = None
    replay: Path | None = None

    def at(self, state: Path | None, domain: str) -> Path:
        """Return the run's folder: the one named, else one named by the time."""
        if self.out or self.resume:
            return (self.out or self.resume or Path()).expanduser()
        name = stamp(utc_now())
        if self.replay is not None:
            return self.replay.resolve().parent / name
        return state / "eval" / domain / name if state else Path(LOCAL_RUNS) / name


@dataclass(frozen=True)
class Parts:
    """Whom to ask, with what, kept where."""

    source: AgentSource
    agent: AgentSettings
    folder: Path
    lessons: LessonSet | None = None
    embedder: Embedder | None = None
    state: Path | None = None
    """State directory of the store the lessons are from: its history gets a line."""


def carry_out(options: RunOptions, places: Places, *, as_json: bool) -> None:
    """Run it all and print the verdict; raise LessonsError, TooManyUnjudged last of all."""
    _refuse_early(options, places)
    questions = _questions(options, places)
    with _parts(options, places, questions) as parts:
        wish = _wish(options, parts, places, questions, quiet=as_json)
        trials = evaluate(wish)
    _report(wish.folder, parts, options.max_unjudged, as_json=as_json)
    require_judged(trials, options.max_unjudged)


def _refuse_early(options: RunOptions, places: Places) -> None:
    """Raise LessonsError for what cannot be, before anything that takes time."""
    parse_arms(options.arms, lessons=True)
    if options.domain:
        clean_domain(options.domain)
    if options.judging().manual:
        require_terminal()
    if not (places.replay or options.demo or options.openwebui.strip()):
        options.agent().require()


def _questions(options: RunOptions, places: Places) -> QuestionSet:
    """Return what is asked, of a replay without --questions what was asked; raise LessonsError."""
    if options.questions:
        return read_question_set(questions_folder(options.questions))
    return RunFolder(places.replay or Path()).kept_questions()


def _wish(
    options: RunOptions, parts: Parts, places: Places, questions: QuestionSet, *, quiet: bool
) -> Evaluation:
    judge = options.judging()
    recorded = options.recorded()
    own = parts.lessons is not None or not parts.source.recalls
    plan = RunPlan(questions, parse_arms(options.arms, lessons=own), options.runs, options.seed)
    return Evaluation(
        plan=plan,
        source=parts.source,
        grader=open_grader(parts.agent, judge),
        judge=judge.name,
        lessons=parts.lessons,
        embedder=parts.embedder,
        folder=RunFolder(parts.folder),
        command=recorded | ({"replay": str(places.replay)} if places.replay else {}),
        questions_folder=options.questions,
        store="" if options.demo else recorded["store"],
        workers=options.workers,
        margin=options.margin,
        max_unjudged=options.max_unjudged,
        reference=parts.agent.reference is not None,
        quiet=quiet,
        judged_later=graded_by_hand if judge.manual else None,
    )


@contextmanager
def _parts(options: RunOptions, places: Places, questions: QuestionSet) -> Iterator[Parts]:
    """Yield whom to ask; raise LessonsError."""
    folder = places.at(None, "")
    if places.replay is not None:
        with _reference(options) as agent:
            yield Parts(recorded_source(RunFolder(places.replay)), agent, folder)
    elif options.demo:
        with demo_parts(options.error_rate, options.seed) as demo:
            lessons = copied_set(demo.store, DEMO_DOMAIN, None, demo.embedder)
            source = harness_source(demo.agent, options.error_rate)
            yield Parts(source, demo.agent, folder, lessons, known_texts(demo.embedder))
    else:
        yield _given(options, places, options.domain or questions.domain)


@contextmanager
def _reference(options: RunOptions) -> Iterator[AgentSettings]:
    """Yield what the checks of a recorded run need: its database, of a demo a new one."""
    if options.demo:
        with demo_database() as database:
            yield AgentSettings(reference=database)
    else:
        yield AgentSettings(
            reference=agent_settings("", "", reference=options.reference_db).reference
        )


def _given(options: RunOptions, places: Places, domain: str) -> Parts:
    """Return the parts that are the user's own; raise LessonsError."""
    agent, state = options.agent(), None
    given = Path(options.state_dir) if options.state_dir else None
    if options.store.strip():
        domain, state = clean_domain(domain), state_of(options.store, given)
    folder, embedder = places.at(state, domain), parse_embedding(options.embedding, os.environ)
    source = _source(options, agent, state)
    if state is None:
        return Parts(source, agent, folder)
    with busy("copying the lessons"):
        lessons = copied_set(options.store, domain, given, embedder)
    remembering = known_texts(embedder) if embedder is not None else None
    return Parts(source, agent, folder, lessons, remembering, state)


def _source(options: RunOptions, agent: AgentSettings, state: Path | None) -> AgentSource:
    """Return whom the settings name; raise NoAgent."""
    if not options.openwebui.strip():
        return harness_source(agent)
    arms = parse_arms(options.arms, lessons=True)
    return openwebui_source(_target(options), state / "eval" if state else Path(LOCAL_RUNS), arms)


def _target(options: RunOptions) -> Target:
    from lessons_loop.deploy.evaluation.openwebui import Target

    names = tuple(name.strip() for name in options.tool_ids.split(",") if name.strip())
    return Target(
        url=options.openwebui.strip(),
        model=options.agent_model.strip(),
        tools=names or None,
        system=options.system,
        admin_email=options.admin_email,
        password=options.password,
        token=options.token,
    )


def _report(folder: RunFolder, parts: Parts, max_unjudged: float, *, as_json: bool) -> None:
    """Print the verdict, keep a line of it in the store's history."""
    from lessons_loop.eval.report.comparison import finish_run, history_line
    from lessons_loop.eval.runs.history import append_history

    report = finish_run(folder, parts.state)
    if parts.state is not None and share_unjudged(report.trials) <= max_unjudged:
        append_history(parts.state, history_line(report, at=str(folder.settings()["ended"])))
    if as_json:
        typer.echo(folder.report_json.read_text("utf-8"))
    else:
        say(report.lines())
        say([f"page: {folder.report_html}", f"JSON: {folder.report_json}"])
