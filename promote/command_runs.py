"""What the gate's commands do once their flags are read: open, decide, print."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress

from lessons_loop.filter.errors import EmbedError, InvalidLesson, LessonsError
from lessons_loop.filter.llm import HttpModel
from lessons_loop.promote import render
from lessons_loop.promote.cases import Case, Casebook
from lessons_loop.promote.changes import masked_values
from lessons_loop.promote.embedders import parse_embedding
from lessons_loop.promote.gate import Mode, Rules
from lessons_loop.promote.gathering import no_progress
from lessons_loop.promote.judge import judge_at
from lessons_loop.promote.lookup import (
    check_prefix,
    decide,
    find_waiting,
    list_waiting,
    only,
)
from lessons_loop.promote.quiet import busy
from lessons_loop.promote.records import Actor, Decision
from lessons_loop.promote.review import HumanReviewer, ModelReviewer
from lessons_loop.promote.run import Reviewer, RunOptions, run_gate
from lessons_loop.promote.run_report import Outcome, RunReport
from lessons_loop.promote.session import GateSession, GateSettings, open_gate
from lessons_loop.promote.state import existing_store
from lessons_loop.promote.terminal import ConsoleTerminal

INTERRUPTED = 130


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

    def rules(self) -> Rules:
        """Return what the run judges by."""
        hosts = [*(self.allow_host or ()), *os.environ.get("LESSONS_ALLOW_HOSTS", "").split(",")]
        return Rules(
            self.dup_threshold, self.min_users, tuple(host.strip() for host in hosts if host)
        )

    def settings(self, *, embedding: bool = True, reading: bool = False) -> GateSettings:
        """Return where the gate works, for reading a copy; raise EmbedError."""
        embedder = parse_embedding(self.embedding if embedding else "", os.environ)
        copy = self.dry_run or reading
        return GateSettings(self.store, self.domain, self.state_dir, embedder, copy)


def run_over_all(flags: GateFlags, mode_name: str, llm: tuple[str, str, str]) -> None:
    """Judge every candidate; exit 1 when the review ended early, 130 after Ctrl-C."""
    mode = Mode(mode_name)
    reviewer = _reviewer(mode, llm)
    console = render.make_console()
    would = flags.dry_run or mode is Mode.NONE
    if flags.dry_run and not flags.as_json:
        console.print(render.DRY_RUN)

    def show(outcome: Outcome) -> None:
        if not flags.as_json:
            render.print_lines(console, render.outcome_lines(outcome, would=would))

    opened = _opened(flags, reading=True) if mode is Mode.NONE else _opened(flags)
    with opened as session, _progress(mode) as progress:
        options = RunOptions(mode, flags.rules())
        judge = judge_at(*llm) if mode in (Mode.LLM, Mode.HUMAN) else None
        report = run_gate(session, options, reviewer, show, progress, judge)
        report.dry_run = flags.dry_run
    _print_report(console, report, flags.as_json)
    if report.error:
        raise LessonsError(report.error)
    if isinstance(reviewer, HumanReviewer) and reviewer.interrupted:
        raise typer.Exit(INTERRUPTED)


def decide_named(
    flags: GateFlags, ids: Sequence[str], word: str, reason: str, supersede: str = ""
) -> None:
    """Promote or reject the named lessons as a person's decision."""
    wanted = (Decision(word), " ".join(reason.split()), Actor(kind="human", name=_login()))
    existing_store(flags.store)
    with _opened(flags) as session:
        outcomes = decide(session, ids, wanted, flags.rules(), supersede)
        content = [outcome.as_dict() for outcome in outcomes]
    if flags.as_json:
        _print_json({"dry_run": flags.dry_run, "verdicts": content})
        return
    console = render.make_console()
    shown = [render.outcome_lines(outcome, would=flags.dry_run) for outcome in outcomes]
    lines = [line for pair in shown for line in pair]
    framed = [render.DRY_RUN, *lines, render.DRY_RUN] if flags.dry_run else lines
    render.print_lines(console, framed)


def list_all(flags: GateFlags) -> None:
    """Print what waits for a decision."""
    with _opened(flags, reading=True, embedding=False) as session:
        some = bool(session.candidates() or session.held())
        unreadable, others = session.unreadable, session.other_domains()
    cases = _waiting_cases(flags) if some else []  # loading a model takes seconds
    rows = [render.waiting_row(case) for case in cases]
    if flags.as_json:
        staged = [row for row in rows if row["status"] == "candidate"]
        held = [row for row in rows if row["status"] == "held"]
        _print_json({"candidates": staged, "held": held, "unreadable": unreadable})
        return
    console = render.make_console()
    there = f"; this store has: {', '.join(others)}" if others else ""
    if not rows:
        render.print_lines(console, [f"no candidates in {flags.domain}{there}"])
    for title, wanted in (("candidates", True), ("held", False)):
        if chosen := [case for case in cases if bool(case.group.staged) is wanted]:
            console.print(f"{title}: {len(chosen)}")
            console.print(render.waiting_table(chosen, console.width))
    if unreadable:
        console.print(f"{unreadable} unreadable row(s) in staging")


def _waiting_cases(flags: GateFlags) -> list[Case]:
    with _reading_gate(flags) as session, _progress() as progress:
        return list_waiting(session, flags.rules(), progress).cases(progress)


def show_one(flags: GateFlags, prefix: str) -> None:
    """Print one lesson, wherever it is; raise InvalidLesson."""
    check_prefix(prefix)
    with _reading_gate(flags) as session:
        found = _find_anywhere(session, flags.rules(), prefix)
    if flags.as_json:
        _print_json(found["json"])
        return
    console = render.make_console()
    render.print_lines(console, found["lines"])


def _find_anywhere(session: GateSession, rules: Rules, prefix: str) -> dict[str, Any]:
    book = Casebook(session, rules)
    if rows := [row for key, row in session.curated.items() if key.startswith(prefix)]:
        row = only(rows, prefix, "lesson")
        decisions = book.decisions([row.key])
        return _shown("curated", render.curated_lines(row, decisions), row, decisions)
    listing = list_waiting(session, rules)
    try:
        group = find_waiting(listing, prefix)
    except InvalidLesson:
        archived = [r for r in session.archive.values() if r.lesson.key.startswith(prefix)]
        latest = {r.lesson.key: r for r in sorted(archived, key=lambda r: r.ledger_ref)}
        past = only(list(latest.values()), prefix, "lesson")
        decisions = book.decisions([past.lesson.key])
        return _shown(past.status.value, render.archived_lines(past, decisions), past, decisions)
    case = listing.book.case(group)
    status = "candidate" if group.staged else group.held[0].status.value
    lines = [f"id:        {group.key}", f"status:    {status}", *render.case_lines(case)[1:]]
    decisions = book.decisions([group.key])
    return {"lines": lines, "json": _case_json(case, status, decisions)}


def _shown(
    status: str, lines: list[str], row: Any, decisions: list[dict[str, Any]]
) -> dict[str, Any]:
    content = {"status": status, **row.model_dump(mode="json"), "decisions": decisions}
    return {"lines": lines, "json": content}


def _case_json(case: Case, status: str, decisions: list[dict[str, Any]]) -> dict[str, Any]:
    outcome = Outcome(case, case.verdict, case.group.lesson)
    evidence = [
        {"at": seen.at, **seen.evidence.model_dump(mode="json")} for seen in case.group.candidates
    ]
    return {
        "status": status,
        **outcome.as_dict(),
        "tags": list(case.group.lesson.tags),
        "evidence": evidence,
        "decisions": decisions,
    }


@contextmanager
def _opened(
    flags: GateFlags, *, reading: bool = False, embedding: bool = True
) -> Iterator[GateSession]:
    """Open the gate, saying so on stderr: loading an embedding model takes seconds."""
    if reading:
        existing_store(flags.store)
    settings = flags.settings(embedding=embedding, reading=reading)
    with ExitStack() as stack:
        with busy("opening the store …"):
            session = stack.enter_context(open_gate(settings))
        yield session


@contextmanager
def _reading_gate(flags: GateFlags) -> Iterator[GateSession]:
    """Open the gate; a dead embedding engine costs the comparison, not the list."""
    with ExitStack() as stack:
        try:
            session = stack.enter_context(_opened(flags, reading=True))
        except EmbedError as error:
            typer.echo(f"lessons: {error}; shown without comparison", err=True)
            session = stack.enter_context(_opened(flags, reading=True, embedding=False))
        yield session


def _reviewer(mode: Mode, llm: tuple[str, str, str]) -> Reviewer | None:
    if mode is Mode.LLM:
        return ModelReviewer(HttpModel(*llm))
    if mode is not Mode.HUMAN:
        return None
    return HumanReviewer(ConsoleTerminal(render.make_console()), _login())


@contextmanager
def _progress(mode: Mode = Mode.NONE) -> Iterator[Any]:
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


def _print_report(console: Console, report: RunReport, as_json: bool) -> None:
    if as_json:
        _print_json(report.as_dict())
        return
    render.print_lines(console, render.report_lines(report))


def _print_json(content: Any) -> None:
    # escapes instead of raw characters: a terminal must not be steered by what is shown
    typer.echo(json.dumps(masked_values(content), indent=2))


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
