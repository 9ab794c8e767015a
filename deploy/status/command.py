"""`lessons status`: what a store holds, how its lessons do, and whether all is well."""

from __future__ import annotations

import json
import os
from typing import Annotated

import typer

from lessons_loop.promote.options import AllDomains, AsJson, StateDir, Store
from lessons_loop.promote.quiet import busy


def register(app: typer.Typer) -> None:
    """Add the command to an app."""
    app.command()(status)


def status(
    store: Store = "",
    state_dir: StateDir = None,
    domain: AllDomains = "",
    check: Annotated[
        bool,
        typer.Option("--check", help="Read the whole store and ledger, not the gate's summary."),
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="List every used lesson's record.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what a store holds, what waits and what is wrong.

    Also the last runs and how each lesson does in use. It exits 1 when something is wrong.
    Without --check it takes under a second.

    Example: lessons status --store ./lessons
    """
    from lessons_loop.deploy.status.models import add_models
    from lessons_loop.deploy.status.quick import quick_status
    from lessons_loop.deploy.status.render import render_status
    from lessons_loop.promote.showing import make_console

    names = list(dict.fromkeys(name.strip() for name in domain.split(",") if name.strip()))
    found = None if check else quick_status(store, state_dir, names)
    if found is None:
        from lessons_loop.deploy.status.whole import read_status

        with busy("reading the store …"):
            found = read_status(store, state_dir, names)
    add_models(found, os.environ, whole=check)
    if as_json:
        typer.echo(json.dumps(found.as_json(), indent=2))
    else:
        typer.echo(render_status(found, make_console().width, every=every))
    if found.problems:
        raise typer.Exit(1)
