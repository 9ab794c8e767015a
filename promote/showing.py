"""What every screen needs: a console of the right width, and text made fit for one line.

Apart from `render`, so that a command that must be quick loads no judging.
"""

from __future__ import annotations

import os
import re

from rich.console import Console

from lessons_loop.promote.lint.hidden import reveal
from lessons_loop.promote.masking import mask_through

WIDTH = 80
LEAST_WIDTH = 40


def make_console() -> Console:
    """Return a console for stdout: as wide as the terminal or COLUMNS, at most 80 columns."""
    found = Console(highlight=False, markup=False, emoji=False)
    known = found.is_terminal or os.environ.get("COLUMNS", "").isdigit()
    width = min(max(found.width, LEAST_WIDTH), WIDTH) if known else WIDTH
    return Console(highlight=False, markup=False, emoji=False, width=width)


def plain(text: str) -> str:
    """Return text fit for one line: secrets masked, hidden characters written out."""
    return re.sub(r"[\n\t]", " ", reveal(mask_through(text)))
