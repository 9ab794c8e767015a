"""Show figures: as JSON, or as lines of 80 columns; progress on a terminal's stderr only."""

from __future__ import annotations

import json
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress

from lessons_loop.promote.quiet import LONG_SECONDS

WIDTH = 80
Step = Callable[[], None]


def print_figures(
    figures: Mapping[str, Any], as_json: bool, lines: Callable[[Mapping[str, Any]], Iterable[str]]
) -> None:
    """Print the figures on stdout."""
    # escapes instead of raw characters: a terminal must not be steered by what is shown
    if as_json:
        typer.echo(json.dumps(figures, indent=2))
        return
    for line in lines(figures):
        shown = "".join(char if char.isprintable() else "?" for char in line)
        folded = textwrap.wrap(shown, WIDTH, subsequent_indent="    ", drop_whitespace=False)
        typer.echo("\n".join(part.rstrip() for part in folded))


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Step]:
    """Yield what is called after each step; without a terminal a long run says each tenth.

    rich 13 ends even a disabled bar with a line.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _tenths(what, total)
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


def _tenths(what: str, total: int) -> Step:
    begun, done = time.monotonic(), 0

    def step() -> None:
        nonlocal done
        done += 1
        tenth = done * 10 // total > (done - 1) * 10 // total
        if tenth and time.monotonic() - begun > LONG_SECONDS:
            print(f"lessons: {what} {done} of {total}", file=sys.stderr, flush=True)

    return step


def percent(found: float | None) -> str:
    """Return a share as people read it."""
    return "-" if found is None else f"{found * 100:.1f} %"
