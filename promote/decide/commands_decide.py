"""Commands by which a person decides on lessons named by id: reject, hold, demote, revive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from lessons_loop.promote.gate_options import (
    Domain,
    Force,
    Ids,
    Reason,
    Reviewer,
    Supersede,
    given_reason,
    given_reviewer,
)
from lessons_loop.promote.options import AsJson, DryRun, Embedding, StateDir, Store

if TYPE_CHECKING:
    from lessons_loop.promote.runs.command_runs import GateFlags


def register(app: typer.Typer) -> None:
    """Add the commands to an app."""
    app.command("reject")(reject)
    app.command("hold")(hold)
    app.command("demote")(demote)
    app.command("revive")(revive)


def reject(
    ids: Ids,
    store: Store = "",
    reason: Reason = "",
    reviewer: Reviewer = "",
    domain: Domain = "sql",
    state_dir: StateDir = None,
    embedding: Embedding = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Reject candidates or held lessons, or withdraw a curated one.

    A withdrawn lesson is recalled no more; the same advice, learned again, waits for a person.

    Example: lessons reject 3f2a9c --reason "true for one customer only"
    """
    flags = _flags(store, domain, state_dir, embedding, dry_run, as_json)
    _decide(flags, ids, "reject", reason, reviewer)


def hold(
    ids: Ids,
    store: Store = "",
    reason: Reason = "",
    reviewer: Reviewer = "",
    domain: Domain = "sql",
    state_dir: StateDir = None,
    embedding: Embedding = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let candidates wait for a person, however often they are seen.

    No run promotes them.

    Example: lessons hold 3f2a9c --reason "ask the database team first"
    """
    flags = _flags(store, domain, state_dir, embedding, dry_run, as_json)
    _decide(flags, ids, "hold", reason, reviewer)


def demote(
    ids: Ids,
    store: Store = "",
    reason: Reason = "",
    reviewer: Reviewer = "",
    domain: Domain = "sql",
    state_dir: StateDir = None,
    embedding: Embedding = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Take curated lessons out of use as stale, counters kept.

    `lessons revive` brings them back.

    Example: lessons demote 3f2a9c --reason "the table was dropped in version 9"
    """
    flags = _flags(store, domain, state_dir, embedding, dry_run, as_json)
    _decide(flags, ids, "demote", reason, reviewer)


def revive(
    ids: Ids,
    store: Store = "",
    reason: Reason = "",
    reviewer: Reviewer = "",
    supersede: Supersede = "",
    force: Force = False,
    domain: Domain = "sql",
    state_dir: StateDir = None,
    embedding: Embedding = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Bring stale, rejected, superseded or held lessons into use.

    They pass the checks of a promotion. Where a curated lesson says the same or the opposite,
    it needs --supersede ID or --force.

    Example: lessons revive 3f2a9c --reason "the old tables are back"
    """
    if supersede and len(ids) > 1:
        raise typer.BadParameter("--supersede goes with one id")
    flags = _flags(store, domain, state_dir, embedding, dry_run, as_json)
    _decide(flags, ids, "revive", reason, reviewer, (supersede, force))


def _decide(
    flags: GateFlags,
    ids: list[str],
    word: str,
    reason: str,
    reviewer: str,
    against: tuple[str, bool] = ("", False),
) -> None:
    why, name = given_reason(reason), given_reviewer(reviewer)
    from lessons_loop.promote.decide.decide_runs import decide_named

    decide_named(flags, ids, (word, why, name), *against)


def _flags(
    store: str, domain: str, state_dir: Path | None, embedding: str, dry_run: bool, as_json: bool
) -> GateFlags:
    from lessons_loop.promote.runs.command_runs import GateFlags

    return GateFlags(store, domain, state_dir, embedding, dry_run, as_json=as_json)
