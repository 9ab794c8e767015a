"""`lessons eval report`: what a run came to, as lines, JSON and one page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lessons_loop.promote.options import AsJson, StateDir
from lessons_loop.promote.runs.pause_commands import PlaceStore, place_of

if TYPE_CHECKING:
    from lessons_loop.eval.report.comparison import Report


def register(group: typer.Typer) -> None:
    """Add the command to the group `eval`."""
    group.command("report", short_help="What a run came to: verdict, flips, cost.")(report)


def report(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Folder of a run of `lessons eval run`, or latest: the one begun last.",
        ),
    ],
    store: PlaceStore = "",
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", dir_okay=False, help="Write the page there; replaced if it is there."
        ),
    ] = None,
    state_dir: StateDir = None,
    domain: Annotated[str, typer.Option(help="Of the latest run; default: any.")] = "",
    as_json: AsJson = False,
) -> None:
    """Tell what a run came to: verdict, pass rates, flips, controls, cost.

    An unfinished run is told as such. Page and files hold questions and answers: they are for
    their owner. The page needs no network and holds no script.

    Example: lessons eval report latest --store ./lessons
    """
    from lessons_loop.eval.report.comparison import read_report
    from lessons_loop.eval.runs.folder import RunFolder
    from lessons_loop.eval.runs.newest import LATEST, newest_run
    from lessons_loop.promote.showing import plain

    run = RunFolder(folder.expanduser())
    if named_latest := str(folder) == LATEST and not run.exists:
        state_dir = place_of(store, state_dir) if store.strip() or state_dir else None
        run = newest_run(state_dir, domain.strip())
    found = read_report(run, state_dir)
    content = found.as_dict()
    lines = found.lines()
    if named_latest:
        content |= {"folder": str(run.path)}
        lines = ["run:", plain(str(run.path)), *lines]
    if html is not None:
        target = html.expanduser().absolute()
        _write(target, found)
        content |= {"file": str(target)}
        lines += ["page:", plain(str(target))]
    typer.echo(json.dumps(content, indent=2) if as_json else "\n".join(lines))


def _write(target: Path, found: Report) -> None:
    from lessons_loop.eval.report.page import render_page
    from lessons_loop.promote.files import file_errors, write_atomic

    page = render_page(found).encode("utf-8", "replace")
    if target.exists() and not target.is_file():
        with file_errors(target):
            target.write_bytes(page)
        return
    write_atomic(target, page)
