"""Test tools for the command line: every command there is, run in this process or as a child."""

from __future__ import annotations

import io
import re
import shlex
import signal
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

import typer

from lessons_loop.deploy.cli import app, run

EXAMPLE = re.compile(r"^\s*Example: (lessons .+)$", re.MULTILINE)
UNDER_WAY = re.compile(r"^lessons: [^\n]* …\n", re.MULTILINE)
"""What a command says on stderr where a slow machine makes it take longer than 15 s."""


class Named(NamedTuple):
    """One command with the words that call it."""

    words: tuple[str, ...]
    command: Any

    @property
    def name(self) -> str:
        """The words as typed."""
        return " ".join(self.words)

    @property
    def runs(self) -> bool:
        """Whether it does something itself; a plain group only holds others."""
        return not hasattr(self.command, "commands") or self.command.invoke_without_command

    @property
    def examples(self) -> list[str]:
        """The example lines of its help."""
        return EXAMPLE.findall(self.command.help or "")

    def option(self, name: str) -> Any | None:
        """Return the option of that name, None where there is none."""
        return next((one for one in self.command.params if name in one.opts), None)


def every_command() -> list[Named]:
    """Return all commands that do something, groups' subcommands included."""
    return [found for found in _walk((), typer.main.get_command(app)) if found.runs]


def _walk(words: tuple[str, ...], command: Any) -> Iterator[Named]:
    if words:
        yield Named(words, command)
    for name, below in getattr(command, "commands", {}).items():
        if not below.hidden:  # an old name of another one
            yield from _walk((*words, name), below)


def parse(line: str) -> Any:
    """Parse a whole command line without running it; raise the usage error it has."""
    words = shlex.split(line)[1:]
    command: Any = typer.main.get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    return command.make_context("lessons", words)


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def run_here(*words: str) -> Done:
    """Run a command in this process: a child would cost a second for each of hundreds."""
    out, err = io.StringIO(), io.StringIO()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    earlier = [signal.getsignal(number) for number in numbers]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = run(list(words))
    finally:
        for number, action in zip(numbers, earlier, strict=True):
            signal.signal(number, action)
    return Done(code, out.getvalue(), told(err.getvalue()))


def told(stderr: str) -> str:
    """Return what a command told, without the lines that say it is still at work."""
    return UNDER_WAY.sub("", stderr)
