"""Work on a Chroma folder that a process of its own does: a torn index kills its reader."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.store import first_line


def run_child(module: str, verb: str, paths: Sequence[Path], folder: Path, seconds: float) -> str:
    """Run one verb of a module of the gate's; return "" or what went wrong; raise OSError.

    `folder` is where it works: elsewhere chromadb would read the current folder's `.env`.
    """
    command = [sys.executable, "-m", f"lessons_loop.promote.{module}", verb]
    try:
        done = subprocess.run(
            [*command, *map(str, paths)],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {seconds:.0f} s"
    if done.returncode == 0:
        return ""
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return last[:200] or f"the reader died with code {done.returncode}"


def child_main(verbs: Mapping[str, Callable[..., None]], argv: Sequence[str]) -> int:
    """Carry one verb out; the last line on stderr says what went wrong."""
    try:
        verbs[argv[0]](*map(Path, argv[1:]))
    except LessonsError as error:
        print(error, file=sys.stderr)
        return 1
    except Exception as error:
        print(first_line(error), file=sys.stderr)
        return 1
    return 0
