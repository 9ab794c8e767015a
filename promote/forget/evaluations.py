"""What forgetting does to evaluations: a recorded run that was shown a lesson goes with it.

Requests and replies of a run hold the lessons it was about, its report may quote them. A run
is deleted as a whole: with a part of it gone its figures would be others.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from lessons_loop.promote.files import file_errors

RUN_FILE = "run.json"


def evaluations(state: Path, texts: Iterable[str]) -> list[Path]:
    """Return folders of runs, and single files, that hold one of the lessons' texts.

    Raises StoreError.
    """
    needles = {form.encode() for text in texts if text for form in spellings(text)}
    folder = state / "eval"
    if not needles or not folder.is_dir():
        return []
    with file_errors(folder):
        holding = [file for file in folder.rglob("*") if file.is_file() and _holds(file, needles)]
    return sorted({_whole(file, folder) for file in holding})


def spellings(text: str) -> Iterator[str]:
    """Yield a text as it stands in plain files, in JSON and on a page."""
    yield text
    for ascii_only in (True, False):
        yield json.dumps(text, ensure_ascii=ascii_only)[1:-1]
    yield html.escape(text)
    yield html.escape(text, quote=False)


def _holds(file: Path, needles: set[bytes]) -> bool:
    """Read line by line: a record of requests has megabytes."""
    try:
        with file.open("rb") as lines:
            return any(needle in line for line in lines for needle in needles)
    except FileNotFoundError:  # a run that ends just now
        return False


def _whole(file: Path, folder: Path) -> Path:
    """Return the run's folder a file belongs to, the file itself where it belongs to none."""
    inside = [parent for parent in file.parents if parent.is_relative_to(folder)]
    return next((one for one in inside if (one / RUN_FILE).is_file()), file)
