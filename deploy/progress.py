"""One line per stage with its seconds, on stderr; live on a terminal, plain elsewhere."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

TEXT_COLUMN = 10
"""Where a stage's text begins, behind its seconds."""


class Stages:
    """Reports stages of one run; silent when `quiet`."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.console = Console(stderr=True, highlight=False, quiet=quiet)
        self.began = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.began

    @contextmanager
    def stage(self, doing: str, done: str = "") -> Iterator[None]:
        """Show `doing` while the block runs, and `done` with the elapsed seconds after it."""
        if not self.console.is_terminal:
            yield
        else:
            with self.console.status(f"{doing} …"):
                yield
        self.note(done or doing)

    @contextmanager
    def changing(self, doing: str) -> Iterator[Callable[[str], None]]:
        """Show `doing` while the block runs, and behind it what the block says, on a terminal."""
        if not self.console.is_terminal:
            yield lambda _text: None
            return
        with self.console.status(f"{doing} …") as status:
            room = max(0, self.console.width - len(doing) - 6)
            yield lambda text: status.update(escape(f"{doing} … {text[:room]}"))

    def note(self, text: str) -> None:
        """Print one line with the elapsed seconds, on a terminal wrapped below its text."""
        line = f"{self.elapsed:6.1f} s  {text}"
        if self.console.is_terminal:
            line = hung(line, self.console.width, TEXT_COLUMN)
        self.console.print(line, soft_wrap=True, markup=False)


def hung(line: str, width: int, indent: int) -> str:
    """Wrap between words, later lines indented; a word is never cut: a path can be copied."""
    return textwrap.fill(
        line,
        width,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
