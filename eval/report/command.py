"""`lessons eval report`: what a run came to, as lines, JSON and one page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lessons_loop.promote.options import AsJson, StateDir

if TYPE_CHECKING:
    from lessons_loop.eval.report.comparison import Report


def register(group: typer.Typer) -> None:
    """Add the command to the group `eval`."""
    group.command("report", short_help="What a run came to: verdict, flips, cost.")(report)


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of a run of `lessons eval run`.")
    ],
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", dir_okay=False, help="Write the page there; replaced if it is there."
        ),
    ] = None,
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> None:
    """Tell what a run came to: verdict, pass rates, flips, controls, cost.

    An unfinished run is told as such. Page and files hold questions and answers: they are for
    their owner. The page needs no network and holds no script.

    Example: lessons eval report ./lessons/state/eval/sql/20261130T080000Z
    """
    from lessons_loop.eval.report.comparison import read_report
    from lessons_loop.eval.runs.folder import RunFolder
    from lessons_loop.promote.showing import plain

    found = read_report(RunFolder(folder.expanduser()), state_dir)
    content = found.as_dict()
    lines = found.lines()
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
