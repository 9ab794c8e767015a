"""Open the gate as its commands' flags say, and run it over all candidates."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import Progress

from lessons_loop.filter.errors import EmbedError, LessonsError
from lessons_loop.filter.llm import HttpModel
from lessons_loop.promote import render
from lessons_loop.promote.decay.rules import DecayRules
from lessons_loop.promote.decide.changes import masked_values
from lessons_loop.promote.embedding.embedders import parse_embedding
from lessons_loop.promote.gate import Mode, Rules
from lessons_loop.promote.gathering import no_progress
from lessons_loop.promote.proof.proving import prover_for
from lessons_loop.promote.quiet import busy
from lessons_loop.promote.records import Decision
from lessons_loop.promote.review.reviewers import HumanReviewer, ModelReviewer
from lessons_loop.promote.review.terminal import ConsoleTerminal
from lessons_loop.promote.runs.drive import Reviewer, RunOptions, run_gate
from lessons_loop.promote.runs.preview import TOLD, read_confirmation
from lessons_loop.promote.runs.recording import Recorder, recorded
from lessons_loop.promote.runs.report import Outcome, RunReport
from lessons_loop.promote.session import GateSession, GateSettings, open_gate
from lessons_loop.promote.similar.judge import PairJudge, RememberingJudge, judge_at
from lessons_loop.promote.state import existing_store, locate

if TYPE_CHECKING:
    from lessons_loop.filter.embed import Embedder
    from lessons_loop.promote.proof.prove_batch import Proven

INTERRUPTED = 130
LOCAL_MODEL = "sentence-transformers:"
SOMETHING_WAITS = 3
"""Exit code of an attended run that leaves lessons to a person."""


@dataclass(frozen=True)
class GateFlags:
    """The flags every command of the gate shares."""

    store: str
    domain: str
    state_dir: Path | None
    embedding: str
    dry_run: bool = False
    dup_threshold: float = 0.90
    min_users: int = 2
    allow_host: Sequence[str] | None = None
    as_json: bool = False
    unattended: bool = False
    reviewer: str = ""
    """Who decides, where a person does."""
    decay: DecayRules | None = None
    by_tools: bool = False
    keep_uses: int = 0
    """Answers without a thumb the use register keeps; 0: all."""
    notify_url: str = ""
    """Where the run's line is posted; empty: nowhere."""
    despite_pause: bool = False
    """What takes lessons out of use goes on while the gate is paused."""
    proof: str = ""
    """Set of questions a batch has to prove itself on; empty: none."""
    embedder: Embedder | None = None
    """Loaded already."""

    def rules(self) -> Rules:
        """Return what the run judges by."""
        hosts = [*(self.allow_host or ()), *os.environ.get("LESSONS_ALLOW_HOSTS", "").split(",")]
        allowed = tuple(host.strip() for host in hosts if host)
        return Rules(self.dup_threshold, self.min_users, allowed, proving=bool(self.proof))

    def settings(self, *, embedding: bool = True, reading: bool = False) -> GateSettings:
        """Return where the gate works, for reading a copy; raise EmbedError."""
        embedder = self.embedder if embedding else None
        if embedder is None:
            embedder = parse_embedding(self.embedding if embedding else "", os.environ)
        copy = self.dry_run or reading
        place = (self.store, self.domain, self.state_dir, embedder, copy)
        return GateSettings(*place, despite_pause=self.despite_pause)


def run_over_all(flags: GateFlags, mode_name: str, llm: tuple[str, str, str]) -> None:
    """Judge every candidate; exit 1 when the review ended early, 130 after Ctrl-C.

    Exit 3 when an attended run leaves lessons that wait for a person. A writing run leaves
    its line in the run register; a paused gate's run ends with 0.
    """
    mode = Mode(mode_name)
    if flags.dry_run or mode is Mode.NONE:
        _run_once(flags, mode, llm, None)
        return
    place = locate(flags.store, flags.state_dir)
    actor = {Mode.LLM: f"llm {llm[1]}", Mode.HUMAN: f"human {flags.reviewer}"}.get(mode, mode_name)
    preview = flags.unattended and read_confirmation(place.state) is None
    where = (place.state, place.title, flags.domain)
    recorder = Recorder(*where, mode_name, actor, preview, flags.notify_url)
    with recorded(recorder, lambda told: _tell_paused(told, flags.as_json)):
        _run_once(replace(flags, dry_run=preview), mode, llm, recorder)


def _tell_paused(told: str, as_json: bool) -> None:
    if as_json:
        print_json({"paused": told})
    else:
        typer.echo(told)


def _run_once(
    flags: GateFlags, mode: Mode, llm: tuple[str, str, str], recorder: Recorder | None
) -> None:
    reviewer = _reviewer(mode, llm, flags.reviewer)
    console = render.make_console()
    would = flags.dry_run or mode is Mode.NONE
    preview = recorder is not None and recorder.preview
    if flags.dry_run and not flags.as_json:
        console.print(TOLD if preview else render.DRY_RUN)

    def show(outcome: Outcome) -> None:
        if not flags.as_json:
            render.print_lines(console, render.outcome_lines(outcome, would=would))

    options = RunOptions(mode, flags.rules(), flags.decay, flags.by_tools, flags.keep_uses)
    judge = judge_at(*llm) if mode in (Mode.LLM, Mode.HUMAN) else None
    if flags.proof:
        flags, judge = with_embedder(flags), RememberingJudge(judge.model) if judge else None
        options = replace(options, proof=_proven(flags, options, reviewer, judge))
    opened = opened_gate(flags, reading=mode is Mode.NONE, peek=not flags.proof)
    with opened as session, progress_bar(mode) as progress:
        if recorder:
            recorder.opened(session)
        report = run_gate(session, options, reviewer, show, progress, judge)
        report.dry_run = flags.dry_run
        if recorder:
            recorder.finished(session, report)
        left = bool(session.held()) or any(
            outcome.verdict.decision is Decision.SKIP for outcome in report.outcomes
        )
    _print_report(console, report, flags.as_json, preview)
    if report.error:
        raise LessonsError(report.error)
    if isinstance(reviewer, HumanReviewer) and reviewer.interrupted:
        raise typer.Exit(INTERRUPTED)
    if left and not (would or flags.unattended):
        raise typer.Exit(SOMETHING_WAITS)


def _proven(
    flags: GateFlags, options: RunOptions, reviewer: Reviewer | None, judge: PairJudge | None
) -> Proven:
    """Rehearse the run on a copy and have its batch proven; raise LessonsError."""
    from lessons_loop.promote.proof.prove_batch import Rehearsal, prove_batch

    existing_store(flags.store)
    prover = prover_for(flags.proof)  # first: what is missing is said before anybody is asked
    with progress_bar(options.mode) as progress:
        keep = not flags.dry_run and options.mode is not Mode.NONE
        trial = Rehearsal(flags.settings(), options, reviewer, judge, progress, keep)
        return prove_batch(trial, prover)


def with_embedder(flags: GateFlags) -> GateFlags:
    """Return the flags with the embedding model loaded: a copy and the store share it."""
    with busy("loading the embedding model …"):
        return replace(flags, embedder=flags.settings().embedder)


@contextmanager
def opened_gate(
    flags: GateFlags, *, reading: bool = False, embedding: bool = True, peek: bool = False
) -> Iterator[GateSession]:
    """Open the gate, saying so on stderr: loading an embedding model takes seconds.

    `peek`: look first, without a model, whether there is anything to embed.
    """
    if reading:
        existing_store(flags.store)
    with ExitStack() as stack:
        with busy("opening the store …"):
            embedding = embedding and not (peek and _nothing_waits(flags))
            settings = flags.settings(embedding=embedding, reading=reading)
            session = stack.enter_context(open_gate(settings))
        yield session


def _nothing_waits(flags: GateFlags) -> bool:
    """Say whether a run has nothing to embed; only a model of our own takes long to load."""
    if not flags.embedding.strip().startswith(LOCAL_MODEL):
        return False
    with open_gate(flags.settings(embedding=False, reading=True)) as session:
        return not (session.candidates() or session.held())


@contextmanager
def reading_gate(flags: GateFlags) -> Iterator[GateSession]:
    """Open the gate; a dead embedding engine costs the comparison, not the list."""
    with ExitStack() as stack:
        try:
            session = stack.enter_context(opened_gate(flags, reading=True))
        except EmbedError as error:
            typer.echo(f"lessons: {error}; shown without comparison", err=True)
            session = stack.enter_context(opened_gate(flags, reading=True, embedding=False))
        yield session


def _reviewer(mode: Mode, llm: tuple[str, str, str], name: str) -> Reviewer | None:
    if mode is Mode.LLM:
        return ModelReviewer(HttpModel(*llm))
    if mode is not Mode.HUMAN:
        return None
    return HumanReviewer(ConsoleTerminal(render.make_console()), name)


@contextmanager
def progress_bar(mode: Mode = Mode.NONE) -> Iterator[Any]:
    """Show a bar on stderr for what takes long; it is gone while a person is asked."""
    console = Console(stderr=True)
    if not console.is_terminal:  # rich 13 ends even a disabled bar with an empty line
        yield no_progress
        return
    with Progress(console=console, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def show(what: str, done: int, total: int) -> None:
            if mode is Mode.HUMAN and what == "judging":
                bar.stop()
                return
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done)

        yield show


def _print_report(console: Console, report: RunReport, as_json: bool, preview: bool) -> None:
    if as_json:
        print_json(report.as_dict() | {"preview": preview})
        return
    lines = render.report_lines(report)
    render.print_lines(console, [*lines[:-1], TOLD] if preview else lines)


def print_json(content: Any) -> None:
    """Print plain values as one JSON document, masked."""
    # escapes instead of raw characters: a terminal must not be steered by what is shown
    typer.echo(json.dumps(masked_values(content), indent=2))
