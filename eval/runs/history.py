"""What earlier evaluations found: one JSON line each in `<state>/eval/history/<domain>.jsonl`.

Counts and names only: no text of a question, an answer or a lesson. A line that cannot be
read is skipped and counted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lessons_loop.eval.stats.arm_figures import ArmFigures
from lessons_loop.promote.files import appending, file_errors, private_folder
from lessons_loop.promote.state import clean_domain

KINDS = "^(baseline|after|proof|run)$"


class HistoryLine(BaseModel):
    """What one evaluation found."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    at: str
    """When it ended, ISO 8601, UTC."""
    kind: Annotated[str, Field(pattern=KINDS)] = "run"
    """`baseline` before seeding, `after` a batch, `proof` of a batch, else `run`."""
    run: str = ""
    """Name of the run's folder."""
    domain: str
    questions: str = ""
    """First 12 digits of the question set's digest."""
    model: str = ""
    stand_in: bool = False
    """A script stood in for the model: it proves the machinery, not the benefit."""
    lessons: int = 0
    """Lessons in curated."""
    lesson_set: str = ""
    """First 12 digits of the lesson set's digest."""
    rev: int = 0
    arms: dict[str, ArmFigures] = Field(default_factory=dict)
    """By name of the arm; of a proof, `off` is before the batch and `on` with it."""
    verdict: str = ""
    """Empty: one arm alone, nothing was compared."""
    lift: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None


class HistoryLines(list[HistoryLine]):
    """Lines, oldest first."""

    unreadable: int = 0
    """Lines that were none."""


def history_file(state: Path, domain: str) -> Path:
    """Return where a domain's lines are; raise StoreError for what names no domain."""
    return state / "eval" / "history" / f"{clean_domain(domain)}.jsonl"


def append_history(state: Path, line: HistoryLine) -> None:
    """Add a line, on disk before it returns; one run is one line, however often it is told.

    Raises StoreError. Needs no lock of the gate.
    """
    path = history_file(state, line.domain)
    for folder in (path.parent.parent, path.parent):
        private_folder(folder)
    with appending(path) as add:
        if line not in read_history(state, line.domain):
            add(line.model_dump_json().encode())


def read_history(state: Path, domain: str) -> HistoryLines:
    """Return a domain's lines; no file is none. Raises StoreError where it cannot be read."""
    path = history_file(state, domain)
    with file_errors(path):
        raw = path.read_bytes().split(b"\n") if path.exists() else []
    found = HistoryLines()
    for text in filter(bytes.strip, raw):
        try:
            found.append(HistoryLine.model_validate_json(text))
        except ValidationError:
            found.unreadable += 1
    return found


def domains_with_history(state: Path) -> list[str]:
    """Return the domains that have a history, by name."""
    with file_errors(state):
        return sorted(path.stem for path in (state / "eval" / "history").glob("*.jsonl"))
