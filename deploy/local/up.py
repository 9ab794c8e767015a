"""`lessons up`: a local installation that runs until it is stopped."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rich.console import Console

from lessons_loop.deploy.evaluation.baseline import eval_environment
from lessons_loop.deploy.local.installation import Options, Running, local_run
from lessons_loop.deploy.progress import Stages, hung
from lessons_loop.deploy.webui.server import ADMIN_EMAIL
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.published import read_published

WATCH_SECONDS = 0.5
NO_LESSONS = "none"
LABEL_COLUMNS = 15


def run_up(options: Options, *, as_json: bool = False) -> None:
    """Bring everything up, say where it is, watch it until Ctrl-C or SIGTERM.

    Raises LessonsError when something does not start or ends on its own. As JSON the
    one document stands on stdout as soon as everything is ready.
    """
    stages = Stages()
    with local_run(options, stages) as running, asked_to_stop() as stopped:
        if as_json:
            print(json.dumps(as_content(running), indent=2), flush=True)
        else:
            console = Console(highlight=False)
            text = fitted(welcome(running), console.width) if console.is_terminal else ""
            console.print(text or welcome(running), soft_wrap=True, markup=False)
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

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        numbers.append(signal.SIGHUP)
    earlier = [signal.signal(number, ask) for number in numbers]
    try:
        yield event
    finally:
        for number, action in zip(numbers, earlier, strict=True):
            signal.signal(number, action)


def welcome(running: Running) -> str:
    """Say where everything is and what to try first."""
    password = shortest(running.home.password_file)
    lines = [
        "",
        f"  Open WebUI   {running.settings.url}",
        f"  sign in      {ADMIN_EMAIL}   {running.settings.password}   (kept in {password})",
        f"  models       {running.models.label}",
        f"  embedding    {running.embedding.label}",
        f"  lessons      {curated_counts(running)}",
        "  try          How many operating hours did machine SN-004711 run in the last 12 months?",
        f"  decide       source {settings_file(running)}",
        f"               {command_name()} promote --review human --min-users 1",
        *how_to_teach(running),
        "  stop         Ctrl-C",
        "",
    ]
    return "\n".join(lines)


def fitted(text: str, width: int) -> str:
    """Wrap what is longer than the terminal below its label; commands stay whole, to be copied."""
    commands = ("source ", command_name())
    lines = [
        line if line[LABEL_COLUMNS:].startswith(commands) else hung(line, width, LABEL_COLUMNS)
        for line in text.split("\n")
    ]
    return "\n".join(lines)


def as_content(running: Running) -> dict[str, object]:
    """Return where everything is, for machines; the password stays in its file."""
    return {
        "url": running.settings.url,
        "user": ADMIN_EMAIL,
        "password_file": str(running.home.password_file),
        "models": running.models.label,
        "embedding": running.embedding.label,
        "store": str(running.home.store.root),
        "settings_file": str(settings_file(running).resolve()),
    }


def how_to_teach(running: Running) -> list[str]:
    """Say how to see a lesson being learned where the shipped ones leave nothing to learn."""
    counted = curated_counts(running).split(", ")
    empty = all(part.startswith(("0 ", NO_LESSONS)) for part in counted)
    if not running.models.practice or empty:
        return []
    folder = shortest(running.home.root.with_name("empty"))
    return [
        "  learn        the shipped lessons answer these questions; without them it has to learn:",
        f"               {command_name()} up --no-seeds --port 0 --data-dir {folder}",
    ]


def settings_file(running: Running) -> Path:
    """Write what gate and evaluation commands need here, as a shell reads it; no secrets."""
    file = running.home.root / "lessons.env"
    names = ("LESSONS_STORE", "LESSONS_EMBEDDING")
    lines = [f"export {name}={shlex.quote(running.environment[name])}" for name in names]
    file.write_text("\n".join([*lines, *eval_lines(running)]) + "\n", "utf-8")
    return shortest(file)


def eval_lines(running: Running) -> list[str]:
    """Return the settings of `lessons eval run`; a key of the user's own is named, never written.

    Where several models are offered one has to be chosen.
    """
    models = running.models
    known = eval_environment(models, running.home, running.model)
    key = known.pop("LESSONS_EVAL_API_KEY")
    lines = [f"export {name}={shlex.quote(value)}" for name, value in known.items() if value]
    if key:
        told = shlex.quote(key) if models.practice else '"$OPENAI_API_KEY"'
        lines.append(f"export LESSONS_EVAL_API_KEY={told}")
    if not running.model:
        lines.append("# several models are offered: export LESSONS_EVAL_MODEL=NAME")
    return lines


def shortest(path: Path) -> Path:
    """Return the path as seen from here, where that is shorter."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def command_name() -> str:
    """Return how to call this command: by name where a shell finds it, else by path."""
    return "lessons" if shutil.which("lessons") else str(shortest(Path(sys.argv[0]).resolve()))


def curated_counts(running: Running) -> str:
    """Return how many curated lessons recall will read, per domain."""
    parts = []
    for file in sorted((running.home.store.root / "published").glob("*.lessons")):
        try:
            found = read_published(file)
            parts.append(f"{found.header.count if found else 0} {file.stem}")
        except LessonsError as error:
            parts.append(str(error))
    return ", ".join(parts) or NO_LESSONS
