"""The first unattended runs of a state directory are previews, until a person confirms.

`<state>/confirmed.json` says who did and when; it counts for every domain of the state
directory. A file that cannot be read confirms nothing.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from lessons_loop.promote.clock import iso
from lessons_loop.promote.files import private_folder, write_atomic
from lessons_loop.promote.runs.register import RunLine, read_runs

NAME = "confirmed.json"
TOLD = "preview: unattended runs write nothing until `lessons confirm`"


class Confirmation(NamedTuple):
    """Who let unattended runs write, and when."""

    by: str
    at: str


def read_confirmation(state: Path) -> Confirmation | None:
    """Return the confirmation, None where there is none that can be read."""
    try:
        note = json.loads((state / NAME).read_bytes())
        return Confirmation(str(note["by"]), str(note["at"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def confirm(state: Path, by: str, now: datetime) -> Confirmation:
    """Confirm and return what is in force: the first confirmation stays. Raises StoreError."""
    standing = read_confirmation(state)
    if standing is not None:
        return standing
    private_folder(state)
    found = Confirmation(by, iso(now))
    write_atomic(state / NAME, json.dumps(found._asdict()).encode())
    return found


def last_previews(state: Path) -> list[RunLine]:
    """Return each domain's last preview, by domain; raise StoreError."""
    found = {line.domain: line for line in read_runs(state) if line.preview}
    return [found[domain] for domain in sorted(found)]


def preview_lines(line: RunLine) -> list[str]:
    """Return what a preview would have done, for a person."""
    counts = {name: count for name, count in line.outcomes.model_dump().items() if count}
    said = {"skipped": "left undecided", "not_reviewed": "not reviewed"}  # as the run said it
    told = ", ".join(f"{said.get(name, name)} {count}" for name, count in counts.items())
    lines = [f"{line.domain}, preview of {line.ended} ({line.mode}): {told or 'nothing to do'}"]
    for name, keys in (("promoted", line.promoted), ("demoted", line.demoted)):
        if keys:
            ids = ", ".join(key[:12] for key in keys[:20])
            more = f" and {len(keys) - 20} more" if len(keys) > 20 else ""
            lines.append(f"  would be {name}: {ids}{more}")
    return lines
