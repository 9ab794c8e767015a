"""The command `verify`: is the ledger whole, and does the store agree with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.counting import many
from lessons_loop.promote.options import AsJson, StateDir
from lessons_loop.promote.quiet import busy
from lessons_loop.promote.runs.pause_commands import PlaceStore, place_of

if TYPE_CHECKING:
    from lessons_loop.promote.ledger.verify import Verified


def register(app: typer.Typer) -> None:
    """Add the command to an app."""
    app.command()(verify)


def verify(
    store: PlaceStore = "",
    state_dir: StateDir = None,
    domain: Annotated[
        str, typer.Option(help="Lessons of this domain only, or a comma list; default: all.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Check the ledger, and that every lesson's decision is in it.

    All domains of the state directory: chain, payloads, references. Exit code 1 where
    something is wrong; the first bad line is named. A line that a crash cut short is no
    tampering: the next run mends it.
    With --state-dir alone the ledger is checked without its store.

    Example: lessons verify --store ./lessons
    """
    from lessons_loop.promote.ledger.verify import told, verify_state
    from lessons_loop.promote.render import print_lines
    from lessons_loop.promote.showing import make_console

    state = place_of(store, state_dir)
    with busy("reading ledger and store …"):
        names = [name.strip() for name in domain.split(",") if name.strip()]
        found = verify_state(store.strip(), state, names)
    if as_json:
        typer.echo(json.dumps(found.as_dict(), indent=2))
    else:
        print_lines(make_console(), verified_lines(found))
    if found.problems:
        first = told(found.problems[0])
        more = f"; {many(len(found.problems) - 1, 'more problem')}" if found.problems[1:] else ""
        told_already = first.endswith(("from a backup", "`lessons repair`"))
        step = "" if told_already else ": restore the state directory from a backup"
        raise LessonsError(f"the ledger does not verify: {first}{more}{step}")
    if found.unread and store.strip():
        raise LessonsError(f"only the ledger was checked: {found.unread}")


def verified_lines(found: Verified) -> list[str]:
    """Return what was found as lines, problems first."""
    from lessons_loop.promote.ledger.verify import told

    lines = [f"problem: {told(one)}" for one in found.problems]
    lines += [f"to mend: {note}" for note in found.notes]
    if found.problems:
        return lines
    gone = f" or forgotten ({found.forgotten})" if found.forgotten else ""
    head = f"the ledger verifies: {many(found.lines, 'line')}, every payload present{gone}"
    if found.unread:
        return [*lines, f"{head}; heads and lessons unchecked: {found.unread}"]
    count = f"{found.curated} curated and {found.archived} archived"
    return [*lines, f"{head}; the references of {count} lessons fit"]
