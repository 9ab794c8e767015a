"""`lessons up`: a local installation that runs until it is stopped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.console import Console

from lessons_loop.deploy.local import Options, Running, local_run
from lessons_loop.deploy.progress import Stages
from lessons_loop.deploy.server import ADMIN_EMAIL
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.published import read_published

WATCH_SECONDS = 0.5


def run_up(options: Options) -> None:
    """Bring everything up, say where it is, watch it until Ctrl-C or SIGTERM.

    Raises LessonsError when something does not start or ends on its own.
    """
    stages = Stages()
    with local_run(options, stages) as running, asked_to_stop() as stopped:
        Console(highlight=False).print(welcome(running), soft_wrap=True, markup=False)
        while not stopped.wait(WATCH_SECONDS):
            for child in running.children:
                child.require_running()
        stages.note("stopping")
    stages.note("stopped")


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """Turn Ctrl-C, SIGTERM and a closed terminal into an event for the block."""
    event = threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        event.set()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    earlier = [signal.signal(number, ask) for number in numbers]
    try:
        yield event
    finally:
        for number, action in zip(numbers, earlier, strict=True):
            signal.signal(number, action)


def welcome(running: Running) -> str:
    """Say where everything is and what to try first."""
    password = running.home.password_file
    lines = [
        "",
        f"  Open WebUI   {running.settings.url}",
        f"  sign in      {ADMIN_EMAIL}   {running.settings.password}   (kept in {password})",
        f"  models       {running.models.label}",
        f"  embedding    {running.embedding.label}",
        f"  lessons      {curated_counts(running)}",
        "  try          How many operating hours did machine SN-004711 run in the last 12 months?",
        f"  decide       lessons candidates --store {running.home.store.root}",
        "  stop         Ctrl-C",
        "",
    ]
    return "\n".join(lines)


def curated_counts(running: Running) -> str:
    """Return how many curated lessons recall will read, per domain."""
    parts = []
    for file in sorted((running.home.store.root / "published").glob("*.lessons")):
        try:
            found = read_published(file)
            parts.append(f"{found.header.count if found else 0} {file.stem}")
        except LessonsError as error:
            parts.append(str(error))
    return ", ".join(parts) or "none"
