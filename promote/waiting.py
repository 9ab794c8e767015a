"""One line at the top of a command while candidates wait for a person.

Read from the small files the gate leaves behind, never from the store; whatever goes wrong
with it, the command goes on.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import typer

from lessons_loop.promote.counting import many

SHOWN_BY = ("candidates", "status", "promote", "report", "audit", "doctor", "up", "demo", "init")
"""Commands that tell it themselves, or have no store yet."""
QUIET = "LESSONS_QUIET"


def announce_waiting(app: typer.Typer) -> None:
    """Let every command of an app that works on a store begin with the line."""
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "")
        if command.callback is not None and name not in SHOWN_BY:
            command.callback = announced(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None and group.name != "eval":
            announce_waiting(group.typer_instance)


def announced(act: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command that prints the line before it acts."""

    @functools.wraps(act)
    def first_told(*args: Any, **options: Any) -> Any:
        tell_waiting(options)
        return act(*args, **options)

    return first_told


def tell_waiting(options: Mapping[str, Any]) -> None:
    """Print the line on stderr, if there is one to print and nobody asked for silence."""
    silent = os.environ.get(QUIET, "").strip() not in ("", "0")
    if silent or options.get("as_json") or not options.get("store"):
        return
    try:
        line = waiting_line(str(options["store"]), options.get("state_dir"))
    except Exception:  # a courtesy: nothing about it may end a command
        return
    if line:
        print(line, file=sys.stderr)


def waiting_line(store: str, state: Path | None, now: datetime | None = None) -> str:
    """Return the line, "" when nothing waits or nothing is known."""
    folder = state_of(store, state)
    if folder is None or not any((folder / "summary").glob("*.json")):
        return ""
    from lessons_loop.promote.clock import parse_iso, utc_now
    from lessons_loop.promote.runs.summary import earliest, read_summaries

    found = [one for one in read_summaries(folder) if one.waiting > 0]
    count = sum(one.waiting for one in found)
    if not count:
        return ""
    oldest = parse_iso(earliest(one.oldest for one in found))
    what = "1 candidate waits" if count == 1 else f"{count} candidates wait"
    age = f", the oldest {aged((now or utc_now()), oldest)}" if oldest and count > 1 else ""
    age = f" for {aged((now or utc_now()), oldest)}" if oldest and count == 1 else age
    return f"lessons: {what}{age}: lessons candidates"


def aged(now: datetime, then: datetime) -> str:
    """Return an age in days, in hours below one day."""
    hours = max(0, int((now - then).total_seconds() // 3600))
    count, unit = (hours, "hour") if hours < 48 else (hours // 24, "day")
    return many(count, unit)


def state_of(store: str, state: Path | None) -> Path | None:
    """Return the state directory a command would use, None when that is not known."""
    if given := str(state or "").strip():
        return Path(given).expanduser()
    return None if "://" in store else Path(store.strip()).expanduser() / "state"
