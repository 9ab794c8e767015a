"""Commands on snapshots: snapshot create, list, show, and restore."""

from __future__ import annotations

from typing import Annotated

import typer

from lessons_loop.promote.gate_options import Domain, Reviewer, given_reason, given_reviewer
from lessons_loop.promote.options import AsJson, DryRun, Embedding, StateDir, Store

When = Annotated[
    str,
    typer.Argument(
        metavar="WHEN",
        help="Its name or the beginning of it; a day or moment (UTC): the newest up to then; "
        "latest: the newest that no restore took.",
    ),
]
Why = Annotated[str, typer.Option("--reason", help="Why; kept with it.")]
Exact = Annotated[
    bool, typer.Option("--exact", help="Also remove candidates and events that came since.")
]

snapshots = typer.Typer(
    help="What a domain held before each run that wrote.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the commands to an app."""
    app.add_typer(snapshots, name="snapshot")
    app.command("restore")(restore)


@snapshots.command("create")
def create(
    store: Store = "",
    state_dir: StateDir = None,
    domain: Domain = "sql",
    reason: Why = "",
    as_json: AsJson = False,
) -> None:
    """Take a snapshot now. Every run that writes takes one by itself.

    Kept for 30 days, and never fewer than the last 8 of a domain.

    Example: lessons snapshot create --reason "before the migration"
    """
    from lessons_loop.promote.snapshot.runs import Place, create_one

    create_one(Place(store, state_dir, domain), given_reason(reason) if reason else "", as_json)


@snapshots.command("list")
def list_all(
    store: Store = "", state_dir: StateDir = None, domain: Domain = "sql", as_json: AsJson = False
) -> None:
    """List a domain's snapshots and what was done after each.

    The oldest comes first.

    Example: lessons snapshot list --domain sql
    """
    from lessons_loop.promote.snapshot.runs import Place, print_list

    print_list(Place(store, state_dir, domain), as_json)


@snapshots.command("show")
def show(
    when: When,
    store: Store = "",
    state_dir: StateDir = None,
    domain: Domain = "sql",
    as_json: AsJson = False,
) -> None:
    """Show what a snapshot holds, and how that differs from now.

    Example: lessons snapshot show latest
    """
    from lessons_loop.promote.snapshot.runs import Place, show_one

    show_one(Place(store, state_dir, domain), when, as_json)


def restore(
    when: When,
    store: Store = "",
    reason: Why = "",
    reviewer: Reviewer = "",
    exact: Exact = False,
    domain: Domain = "sql",
    state_dir: StateDir = None,
    embedding: Embedding = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Make a domain what it was; chats follow at once.

    Takes a snapshot of what it replaces. Candidates and events that came since stay and are
    judged and counted again, each once. Works while the gate is paused. An embedding model is
    needed only where the snapshot lacks vectors.

    Example: lessons restore latest --dry-run
    """
    from lessons_loop.promote.records import Actor
    from lessons_loop.promote.snapshot.runs import Place, restore_one

    actor = Actor(kind="human", name=given_reviewer(reviewer))
    why = given_reason(reason) if reason else ""
    place = Place(store, state_dir, domain, embedding)
    restore_one(place, when, actor, why, exact=exact, dry_run=dry_run, as_json=as_json)
