"""Which evaluation run is the newest: of a state directory, and of runs kept without a store."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from lessons_loop.eval.runs.folder import OtherRun, RunFolder
from lessons_loop.promote.clock import parse_iso
from lessons_loop.promote.files import file_errors

LATEST = "latest"
LOCAL_RUNS = Path("lessons-eval")
"""Where runs without a store are kept, below the current folder."""


def newest_run(state: Path | None, domain: str = "") -> RunFolder:
    """Return the run begun last that has a trial, of one domain if one is named.

    Raises OtherRun where there is none, StoreError.
    """
    where = [*([state / "eval"] if state else []), *([] if domain else [LOCAL_RUNS])]
    with file_errors("the evaluations' folder"):
        found = [run for place in where for run in _runs(place, domain)]
    if not found:
        told = f" of {domain}" if domain else ""
        raise OtherRun(
            f"no run{told} in {' or '.join(map(str, where)) or 'any state directory'}: "
            "run `lessons eval run`, or name a folder"
        )
    return max(found, key=_begun)


def _runs(place: Path, domain: str) -> Iterator[RunFolder]:
    inner = "*" if place == LOCAL_RUNS else f"{domain or '*'}/*"
    for path in place.glob(inner):
        run = RunFolder(path)
        if run.exists and run.trials_file.is_file() and run.trials_file.stat().st_size:
            yield run


def _begun(run: RunFolder) -> tuple[datetime, str]:
    """Return when a run was begun: folders carry it as their name, unless a person named them."""
    named = parse_iso(run.path.name)
    changed = datetime.fromtimestamp(run.settings_file.stat().st_mtime, UTC)
    return named or changed, str(run.path)
