"""Run a command line and return its exit code: one line on stderr for whatever goes wrong."""

from __future__ import annotations

import getpass
import io
import sys
from collections.abc import Sequence
from typing import Any

import typer

from lessons_loop.filter.errors import LessonsError

USAGE = 2
INTERRUPTED = 130
ClickError: Any = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)
"""Base of usage errors, wherever this typer has its click from."""


def run_app(app: typer.Typer, arguments: Sequence[str], name: str) -> int:
    """Run one command: 1 with one line for errors of ours, 2 for usage, 130 when interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may not know every character
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(args=list(arguments), prog_name=name, standalone_mode=False)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    except LessonsError as error:
        return tell(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except ClickError as error:
        return tell_usage(error)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return tell(f"{place}{(error.strerror or type(error).__name__).lower()}", 1)
    return code if isinstance(code, int) else 0


def tell(text: str, code: int) -> int:
    """Print one line on stderr and return the exit code."""
    print(f"lessons: {' '.join(text.split())}", file=sys.stderr)
    return code


def tell_usage(error: Any) -> int:
    """Say what is wrong with a command line and where its help is."""
    message = str(error.format_message()).strip()
    if "\n" in message:  # a group without a command answers with its help
        print(message, file=sys.stderr)
        return USAGE
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "lessons"
    message = message.replace("Value error, ", "")  # a validating library's words
    message = message.removeprefix("Invalid value: ")  # names no option: our own sentence follows
    text = message[:1].lower() + message[1:].rstrip(".")
    return tell(f"{text}: see `{path} --help`", USAGE)


def login_name() -> str:
    """Return who runs this, for records; a container may know no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"
