"""The command `history`: what was decided, read from the ledger alone."""

from __future__ import annotations

import json
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated

import typer

from lessons_loop.promote.counting import many
from lessons_loop.promote.options import AsJson, StateDir
from lessons_loop.promote.runs.pause_commands import PlaceStore, place_of

if TYPE_CHECKING:
    from rich.table import Table

    from lessons_loop.promote.ledger.history import Past

NARROW = 100
"""Columns below which run and number are left to --json, and a lesson's text is cut."""
MOST_OF_A_TEXT = 48
KEY = 64
"""Characters of a lesson's id."""


def register(app: typer.Typer) -> None:
    """Add the command to an app."""
    app.command()(history)


def history(
    store: PlaceStore = "",
    state_dir: StateDir = None,
    lesson: Annotated[str, typer.Option(help="Id of a lesson, or its beginning.")] = "",
    run: Annotated[str, typer.Option(help="Name of a run, or its beginning.")] = "",
    actor: Annotated[str, typer.Option(help="Part of a name, model or kind.")] = "",
    action: Annotated[str, typer.Option(help="promote, reject, hold, fold, restore …")] = "",
    domain: Annotated[
        str, typer.Option(envvar="LESSONS_DOMAIN", help="One domain; default: all.")
    ] = "",
    day: Annotated[str, typer.Option(help="2026-11-30, today, yesterday or 7d (UTC).")] = "",
    since: Annotated[str, typer.Option(help="From this day or moment on.")] = "",
    until: Annotated[str, typer.Option(help="Up to this day or moment, itself included.")] = "",
    limit: Annotated[int, typer.Option(min=0, help="The newest so many; 0: all.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Tell what was decided, by whom and why; the newest comes last.

    The ledger alone is read, so it works while the store is down.

    Example: lessons history --lesson 3f2a9c --since 30d
    """
    from lessons_loop.promote.clock import utc_now
    from lessons_loop.promote.ledger.history import Wanted, read_history, span_of
    from lessons_loop.promote.records import Action
    from lessons_loop.promote.render import print_lines
    from lessons_loop.promote.showing import make_console

    if action and action not in {one.value for one in Action}:
        known = ", ".join(one.value for one in Action)
        raise typer.BadParameter(f"--action is none of {known}")
    try:
        bounds = span_of(day, since, until, utc_now())
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    wanted = Wanted(lesson.lower(), run, actor, action, domain.strip(), *bounds)
    past = read_history(place_of(store, state_dir), wanted, limit)
    if as_json:
        typer.echo(json.dumps(past.as_dict(), indent=2))
        return
    console = make_console()
    if past.entries:
        console.print(history_table(past, console.width))
    print_lines(console, closing_lines(past))


def history_table(past: Past, width: int) -> Table:
    """Return the lines as a table of at most `width` columns."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from lessons_loop.promote.ledger.history import actor_words
    from lessons_loop.promote.masking import mask_through
    from lessons_loop.promote.showing import plain

    wide = width >= NARROW
    table = Table(box=box.SIMPLE_HEAD, width=width, pad_edge=False)
    for name in (*(("line", "run") if wide else ()), "when", "action", "lesson", "by"):
        table.add_column(name, no_wrap=name in ("line", "when", "action", "lesson"))
    table.add_column("why", ratio=1, overflow="fold")
    for entry in past.entries:
        text = past.texts[entry.n]
        text = text if wide else shorten(text, MOST_OF_A_TEXT, placeholder=" …")
        why = f"{entry.reason} · {text}" if text else entry.reason
        cells = [*((str(entry.n), entry.run) if wide else ())]
        when = entry.at[:16].replace("T", " ") if wide else entry.at[5:16].replace("T", " ")
        by = actor_words(entry.actor)
        of_lesson = len(entry.key) == KEY  # a domain's name where a domain was made
        named = entry.key[: 12 if wide else 6] if of_lesson else entry.key[:12]
        cells += [when, entry.action.value, named, by, why]
        table.add_row(*(Text(plain(mask_through(cell))) for cell in cells))
    return table


def closing_lines(past: Past) -> list[str]:
    """Return how much there is, and what could not be read."""
    shown = len(past.entries)
    more = f", the newest {shown} shown" if past.matching > shown else ""
    lines = [f"{many(past.matching, 'line')}{more}"]
    if past.unreadable:
        lines.append(f"{past.unreadable} unreadable: `lessons verify` names them")
    return lines
