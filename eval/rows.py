"""Read benchmark files: JSON Lines, one record a line; the first bad line is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from lessons_loop.filter.errors import LessonsError

Row = TypeVar("Row")


class BadFile(LessonsError):
    """A file given to an evaluation cannot be used."""


def read_rows(path: Path, parse: Callable[[Any], Row]) -> list[Row]:
    """Return every record as `parse` makes it from its JSON; raise BadFile naming the line."""
    try:
        lines = path.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} cannot be read: {getattr(error, 'strerror', 'not UTF-8')}") from None
    rows = [
        _parsed(path, number, line, parse) for number, line in enumerate(lines, 1) if line.strip()
    ]
    if not rows:
        raise BadFile(f"{path} holds no record")
    return rows


def _parsed(path: Path, number: int, line: str, parse: Callable[[Any], Row]) -> Row:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise BadFile(f"{path} line {number} is no JSON: {error}") from None
    if not isinstance(row, dict):
        raise BadFile(f"{path} line {number} is no JSON object")
    try:
        return parse(row)
    except KeyError as error:
        raise BadFile(f"{path} line {number} has no field {error}") from None
    except (ValueError, TypeError) as error:  # pydantic's is a ValueError
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise BadFile(f"{path} line {number}: {reason}") from None


def share(part: int, whole: int) -> float | None:
    """Return part / whole rounded to 4 places, None of nothing."""
    return round(part / whole, 4) if whole else None
