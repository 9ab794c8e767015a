"""One line per stage with its seconds, on stderr; live on a terminal, plain elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


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

    def note(self, text: str) -> None:
        """Print one line with the elapsed seconds."""
        self.console.print(f"{self.elapsed:6.1f} s  {text}", soft_wrap=True, markup=False)
