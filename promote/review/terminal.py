"""A person at a terminal, as the review asks one."""

from __future__ import annotations

import json
import os

import click
from rich.console import Console

from lessons_loop.promote import render
from lessons_loop.promote.cases import Case


class ConsoleTerminal:
    """A person at a terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def show(self, case: Case) -> None:
        """Print a case."""
        render.print_lines(self.console, render.case_lines(case))

    def say(self, text: str) -> None:
        """Print one line."""
        render.print_lines(self.console, [text])

    def ask(self, question: str) -> str:
        """Return one line of input."""
        return input(question)

    def edit(self, text: str) -> str | None:
        """Open $EDITOR; without one, ask for each line."""
        if os.environ.get("VISUAL") or os.environ.get("EDITOR"):
            return click.edit(text, extension=".yaml")
        lines = []
        for line in text.splitlines():
            name, colon, old = line.partition(": ")
            if line.startswith(("#", "- ")) or not colon:
                lines.append(line)
                continue
            new = self.ask(f"{name} [{render.plain(old)}]: ").strip()
            lines.append(f"{name}: {json.dumps(new, ensure_ascii=False)}" if new else line)
        changed = "\n".join(lines)
        return changed if changed != text.rstrip("\n") else None
