"""Work on a Chroma folder that a process of its own does: a torn index kills its reader.

The child ends with its parent, also where that is killed: else it would go on holding, or
writing, a folder whose lock is free again (measured: the next run found the store locked).
"""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from lessons_loop.filter.errors import LessonsError, StoreError
from lessons_loop.filter.store import first_line
from lessons_loop.promote.store.chroma import load_chroma

ORPHAN_SECONDS = 5.0
"""How long a run waits for the folder: the child of a killed one needs a moment to end."""
UNLOADED = 3
"""Exit code where chromadb does not load: that says nothing of the folder."""


def run_child(module: str, verb: str, paths: Sequence[Path], folder: Path, seconds: float) -> str:
    """Run one verb of a module of the gate's in `folder`; return "" or what went wrong.

    Raises OSError, and StoreError where chromadb does not load.
    """
    name = f"lessons_loop.promote.store.{module}"
    command = [sys.executable, "-P", "-m", name, verb, str(seconds)]  # no code of that folder
    try:
        with _lifeline() as stdin:
            done = subprocess.run(
                [*command, *map(str, paths)],
                cwd=folder,
                stdin=stdin,
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
    if done.returncode == UNLOADED:
        raise StoreError(last[:200])
    return last[:200] or f"the reader died with code {done.returncode}"


def child_main(verbs: Mapping[str, Callable[..., None]], argv: Sequence[str]) -> int:
    """Carry out `VERB SECONDS PATH...`; the last line on stderr says what went wrong."""
    verb, seconds, *paths = argv
    _end_with_parent(float(seconds))
    try:
        load_chroma()  # without the `.env` of a folder the plugin may write into
    except StoreError as error:
        print(error, file=sys.stderr)
        return UNLOADED
    try:
        verbs[verb](*map(Path, paths))
    except LessonsError as error:
        print(error, file=sys.stderr)
        return 1
    except Exception as error:
        print(first_line(error), file=sys.stderr)
        return 1
    return 0


@contextmanager
def _lifeline() -> Iterator[int]:
    """Yield the reading end of a pipe nobody writes to: it ends when this process does."""
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(writing)
        os.close(reading)


def _end_with_parent(seconds: float) -> None:
    """End this process once stdin does; a hung index, which lets no thread run, after `seconds`."""
    faulthandler.dump_traceback_later(seconds + 1, exit=True)
    threading.Thread(target=_end_at_end_of_input, daemon=True).start()


def _end_at_end_of_input() -> None:
    os.read(0, 1)
    os._exit(1)
