"""What is shown while something heavy is under way, and what is not."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

QUIET = {"TRANSFORMERS_VERBOSITY": "error", "TQDM_DISABLE": "1"}
LONG_SECONDS = 15.0
"""What takes longer is told on stderr also where that is no terminal."""


def quiet_libraries() -> None:
    """Set it for this program, before anything heavy is imported; what is set stays."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


@contextmanager
def busy(what: str) -> Iterator[None]:
    """Show that `what` is under way: at once on a terminal's stderr, one line after 15 s elsewhere.

    rich 13, which Open WebUI 0.12 pins, writes an empty line where it draws nothing.
    """
    with working(what):
        yield


@contextmanager
def working(what: str, seconds: float = LONG_SECONDS) -> Iterator[Callable[[str], None]]:
    """Do as `busy`, with the line after `seconds`; the block may say what it is at now."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    if console.is_terminal:
        with console.status(Text(what)) as status:
            yield lambda text: status.update(Text(text))
        return
    now = [what]
    timer = threading.Timer(seconds, lambda: print(f"lessons: {now[0]}", file=sys.stderr))
    timer.daemon = True
    timer.start()
    try:
        yield lambda text: now.__setitem__(0, text)
    finally:
        timer.cancel()
