"""Stages on stderr: one line where they are piped, wrapped below their text on a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from lessons_loop.deploy.progress import Stages, hung

LONG = "store is initialised, seeds are loaded; embedding: " + "words of a label " * 4


def printed(*, terminal: bool) -> list[str]:
    stages = Stages()
    paper = io.StringIO()
    stages.console = Console(file=paper, force_terminal=terminal, width=60, color_system=None)
    stages.note(LONG)
    return paper.getvalue().rstrip("\n").split("\n")


def test_piped_stage_is_one_line() -> None:
    (line,) = printed(terminal=False)
    assert LONG.strip() in line


def test_stage_on_a_terminal_is_wrapped_below_its_text() -> None:
    first, *rest = printed(terminal=True)
    assert rest and all(len(line) <= 60 for line in (first, *rest))
    assert all(line.startswith(" " * 10) and line[10] != " " for line in rest)


def test_long_word_stays_whole() -> None:
    path = "/a-folder/" * 12
    assert path in hung(f"kept in {path}", 40, 4).split()
