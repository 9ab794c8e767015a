"""The command `schedule run`: the gate at its times, from a program that stays."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import typer

from lessons_loop.deploy.schedule.command import At, Domains, GateOptions, Zone, check_options
from lessons_loop.promote.options import AsJson, StateDir, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from lessons_loop.deploy.schedule.timer import When


def register(group: typer.Typer) -> None:
    """Add the command to the group `schedule`."""
    group.command()(run)


def run(
    options: GateOptions = None,
    store: Store = "",
    state_dir: StateDir = None,
    domain: Domains = "sql",
    at: At = "Sun 03:00",
    tz: Zone = "",
    as_json: AsJson = False,
) -> None:
    """Stay, and run the gate at its times, unattended.

    For containers; on a host `lessons schedule install` needs no program that stays.
    The first runs are previews until `lessons confirm`. A time missed while this was not
    running is not made up for. --json: one line for each wait and each run.

    Example: lessons schedule run --at "Sun 03:00" --tz Europe/Berlin -- --demote-stale
    """
    from time import sleep

    from lessons_loop.deploy.schedule.timer import gate_command, parse_when
    from lessons_loop.deploy.store_commands import given
    from lessons_loop.promote.clock import utc_now
    from lessons_loop.promote.state import clean_domain, locate

    when, place = parse_when(at, tz), locate(store, state_dir)
    names = [clean_domain(name) for name in given(domain)]
    words = list(options or ())
    note = check_options(words, os.environ)
    if note and not as_json:
        typer.echo(note)
    own = ["--store", store, "--state-dir", str(place.state)]
    program = (sys.executable, "-m", "lessons_loop.deploy.cli")
    commands = [gate_command(program, [*own, "--domain", name, *words]) for name in names]
    keep_running(when, commands, lambda about: _say(about, as_json), utc_now, sleep)


def keep_running(
    when: When,
    commands: Sequence[Sequence[str]],
    say: Callable[[dict[str, Any]], None],
    now: Callable[[], datetime],
    sleep: Callable[[float], object],
    rounds: int | None = None,
) -> None:
    """Wait and run, for ever or so many times; a run that failed is told and tried next time."""
    from lessons_loop.deploy.schedule.wait import next_due, run_each, wait_until

    done = 0
    while rounds is None or done < rounds:
        due = next_due(when, now())
        say({"when": when.told, "next": due.isoformat(timespec="minutes")})
        wait_until(due, now, sleep)
        codes = list(run_each(commands))
        say({"ran": len(codes), "of": len(commands), "exit": codes[-1]})
        done += 1


def _say(about: dict[str, Any], as_json: bool) -> None:
    if as_json:
        text = json.dumps(about)
    elif "next" in about:
        text = f"the gate runs {about['when']}; next: {about['next']}"
    else:
        failed = about["exit"] != 0
        text = f"the run failed with code {about['exit']}" if failed else "the run is done"
    typer.echo(text)
    sys.stdout.flush()
