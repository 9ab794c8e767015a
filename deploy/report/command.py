"""`lessons report`: growth, outcomes, decay and use as one page to look at or pass on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from lessons_loop.promote.options import AllDomains, AsJson, StateDir, Store


def register(app: typer.Typer) -> None:
    """Add the command to an app."""
    app.command()(report)


def report(
    store: Store = "",
    state_dir: StateDir = None,
    domain: AllDomains = "",
    html: Annotated[
        Path, typer.Option("--html", dir_okay=False, help="File to write; replaced if it is there.")
    ] = Path("lessons-report.html"),
    as_json: AsJson = False,
) -> None:
    """Write one HTML page: growth, outcomes per run, decay and use.

    It needs no network and holds no script. Texts of lessons are in it, no user and no chat.

    Example: lessons report --store ./lessons --html lessons-report.html
    """
    from lessons_loop.deploy.doctor.render import wrapped
    from lessons_loop.deploy.domains import domains_in
    from lessons_loop.deploy.report.data import read_report
    from lessons_loop.deploy.report.page import render_page
    from lessons_loop.promote.clock import utc_now
    from lessons_loop.promote.showing import make_console, plain
    from lessons_loop.promote.state import locate

    place = locate(store, state_dir)
    names = domains_in(store, state_dir, domain)
    page = render_page(place.title, read_report(place.state, names), utc_now())
    target = html.expanduser().absolute()
    write_page(target, page.encode("utf-8", "replace"))
    content = {"file": str(target), "bytes": len(page), "domains": names}
    said = f"{', '.join(names)}: written, open it in a browser:"
    lines = wrapped(plain(said), make_console().width, "", "  ")
    lines.append(plain(str(target)))  # whole: it is copied
    typer.echo(json.dumps(content, indent=2) if as_json else "\n".join(lines))


def write_page(target: Path, page: bytes) -> None:
    """Write the page, readable by its owner; a device or pipe is written to, never replaced."""
    from lessons_loop.promote.files import file_errors, write_atomic

    if target.exists() and not target.is_file():
        with file_errors(target):
            target.write_bytes(page)
        return
    write_atomic(target, page)
