"""What is shown while something heavy is under way, and what is not."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext

QUIET = {"TRANSFORMERS_VERBOSITY": "error", "TQDM_DISABLE": "1"}


def quiet_libraries() -> None:
    """Set it for this program, before anything heavy is imported; what is set stays."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


def busy(what: str) -> AbstractContextManager[object]:
    """Show on a terminal's stderr that `what` is under way; silent elsewhere.

    rich 13, which Open WebUI 0.12 pins, writes an empty line where it draws nothing.
    """
    from rich.console import Console

    console = Console(stderr=True)
    return console.status(what) if console.is_terminal else nullcontext()
