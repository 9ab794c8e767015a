"""The command `migrate`: take a store to this release's schema, or back to an earlier one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from lessons_loop.filter.schema import FIRST_SCHEMA, SCHEMA
from lessons_loop.promote.counting import many
from lessons_loop.promote.options import AsJson, DryRun, StateDir, Store
from lessons_loop.promote.quiet import busy

if TYPE_CHECKING:
    from lessons_loop.promote.store.migrate import Moved


def register(app: typer.Typer) -> None:
    """Add the command to an app."""
    app.command()(migrate)


def migrate(
    store: Store = "",
    state_dir: StateDir = None,
    to: Annotated[
        int,
        typer.Option(min=FIRST_SCHEMA, max=SCHEMA, help="The schema; below this release's: back."),
    ] = SCHEMA,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Bring a store of an earlier release up to date, or back.

    All domains. A snapshot comes first, nothing is lost: what an earlier schema has no place
    for is kept in the ledger and put in again. Upgrade the plugins first (`lessons install`),
    they read both. Go back before an earlier release is installed again. Interrupted, run it
    again. Works while the gate is paused.

    Example: lessons migrate --dry-run
    """
    from lessons_loop.promote.render import print_lines
    from lessons_loop.promote.showing import make_console
    from lessons_loop.promote.store.migrate import Wish, migrate_store

    with busy("migrating …"):
        found = migrate_store(Wish(store, state_dir, to, dry_run))
    if as_json:
        typer.echo(json.dumps(as_content(found, to, dry_run), indent=2))
    else:
        print_lines(make_console(), migrated_lines(found, to, dry_run))


def as_content(found: list[Moved], to: int, dry_run: bool) -> dict[str, object]:
    """Return what became of the domains, for machines."""
    return {
        "schema": to,
        "release": SCHEMA,
        "dry_run": dry_run,
        "domains": [vars(one) for one in found],
    }


def migrated_lines(found: list[Moved], to: int, dry_run: bool) -> list[str]:
    """Return what became of the domains, for people; what is left to do comes last."""
    lines = ["DRY RUN: nothing is written"] if dry_run else []
    lines += [one.line for one in found]
    if to < SCHEMA:
        unread = next((one.unread for one in found if one.unread), {})
        for action, count in sorted(unread.items()):
            lines.append(
                f"{many(count, 'ledger line')} `{action}`: a gate of schema {to} stops there; "
                "its plugins read on"
            )
        lines.append(
            f"this release now only reads the store; `lessons migrate` takes it to {SCHEMA}"
        )
    return [*lines, "DRY RUN: nothing was written"] if dry_run else lines
