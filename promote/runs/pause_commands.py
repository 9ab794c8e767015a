"""Commands that stop the gate and let it go on: pause, resume, confirm.

They need the state directory alone.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from lessons_loop.promote.options import AsJson, StateDir, require_store

PlaceStore = Annotated[
    str,
    typer.Option(
        "--store",
        envvar="LESSONS_STORE",
        show_default=False,
        help="Folder or URL; not needed with --state-dir, and never opened.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands to an app."""
    app.command()(pause)
    app.command()(resume)
    app.command()(confirm)


def pause(
    store: PlaceStore = "",
    state_dir: StateDir = None,
    reason: Annotated[str, typer.Option(help="Why; shown wherever the gate is refused.")] = "",
    as_json: AsJson = False,
) -> None:
    """Stop the gate until `lessons resume`; chats go on as they are.

    Runs are skipped (exit 0) and nothing new becomes curated. Reading goes on, and so does
    what undoes: restore, reject, hold, demote, forget. LESSONS_PAUSE=1 does the same.

    Example: lessons pause --reason "store moves to another host"
    """
    from lessons_loop.promote.clock import utc_now
    from lessons_loop.promote.entry import login_name
    from lessons_loop.promote.runs.pause import flag_of, set_pause

    state = place_of(store, state_dir)
    was = flag_of(state)
    found = set_pause(state, login_name(), reason, utc_now())
    line = found.told if found != was else f"{found.told} (it was paused already)"
    _tell(line, {"paused": True, "changed": found != was, **found._asdict()}, as_json)


def resume(store: PlaceStore = "", state_dir: StateDir = None, as_json: AsJson = False) -> None:
    """End a pause. It exits 1 where LESSONS_PAUSE still holds the gate.

    Example: lessons resume
    """
    from lessons_loop.promote.runs.pause import lift_pause, read_pause

    state = place_of(store, state_dir)
    lifted = lift_pause(state)
    still = read_pause(state, os.environ)
    line = "the gate goes on with its next run" if lifted else "the gate was not paused"
    content = {"paused": still is not None, "changed": lifted is not None}
    _tell(still.told if still else line, content, as_json)
    if still:
        raise typer.Exit(1)


def confirm(store: PlaceStore = "", state_dir: StateDir = None, as_json: AsJson = False) -> None:
    """Let unattended runs write; shows what the last preview found.

    Until then each of them is a preview. Once per state directory; again changes nothing.

    Example: lessons confirm
    """
    from lessons_loop.promote.clock import utc_now
    from lessons_loop.promote.entry import login_name
    from lessons_loop.promote.render import print_lines
    from lessons_loop.promote.runs import preview
    from lessons_loop.promote.showing import make_console

    state = place_of(store, state_dir)
    was, previews = preview.read_confirmation(state), preview.last_previews(state)
    found = preview.confirm(state, login_name(), utc_now())
    if as_json:
        content = {"confirmed": True, "changed": was is None, **found._asdict()}
        content["previews"] = [line.model_dump(mode="json") for line in previews]
        typer.echo(json.dumps(content, indent=2))
        return
    lines = [text for line in previews for text in preview.preview_lines(line)]
    lines = lines or ["no preview has run yet: the first unattended run will write"]
    done = "confirmed: unattended runs write from now on"
    again = f"confirmed already by {found.by} on {found.at}"
    print_lines(make_console(), [again] if was else [*lines, done])


def place_of(store: str, state_dir: Path | None) -> Path:
    """Return the state directory; end with exit code 2 where neither is given."""
    from lessons_loop.promote.state import state_of

    if state_dir is None or not str(state_dir).strip():
        require_store(store)
    return state_of(store, state_dir)


def _tell(line: str, content: dict[str, Any], as_json: bool) -> None:
    from lessons_loop.promote.render import print_lines
    from lessons_loop.promote.showing import make_console

    if as_json:
        typer.echo(json.dumps(content, indent=2))
    else:
        print_lines(make_console(), [line])
