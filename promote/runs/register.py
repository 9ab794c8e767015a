"""The run register: one JSON line per writing run of the gate, in `<state>/runs.jsonl`.

Counts, ids and names of rules only; no text of a lesson. A line that cannot be read is
skipped and counted. Dry runs and runs without a mode write none: they write nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lessons_loop.filter.text import scrub, shorten
from lessons_loop.promote.clock import iso
from lessons_loop.promote.files import appending, file_errors, private_folder
from lessons_loop.promote.masking import mask_through

if TYPE_CHECKING:
    from lessons_loop.promote.runs.report import RunReport

NAME = "runs.jsonl"
ERROR_LIMIT = 500
AGES = ((7, "7d"), (30, "30d"), (90, "90d"))
"""Bounds in days of `RunLine.by_age`; what is older counts as `older`."""


class Read(BaseModel):
    """What a run found."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    candidates: int = 0
    groups: int = 0
    events: int = 0
    unreadable: int = 0


class Outcomes(BaseModel):
    """How many groups, lessons or events went which way."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    promoted: int = 0
    duplicates: int = 0
    held: int = 0
    rejected: int = 0
    skipped: int = 0
    not_reviewed: int = 0
    demoted: int = 0
    proposed: int = 0
    harmful: int = 0
    """Curated lessons held because they were measured to do harm."""
    folded: int = 0
    set_aside: int = 0
    """Unreadable rows of staging that were copied aside and deleted."""


class RunLine(BaseModel):
    """What one run did."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run: str
    domain: str
    mode: str = ""
    actor: str = ""
    """Who decided: `rules`, `llm MODEL` or `human NAME`."""
    started: str = ""
    ended: str = ""
    seconds: float = 0.0
    store: str = ""
    snapshot: str = ""
    """Name of the snapshot taken before the first write; empty: nothing was written."""
    preview: bool = False
    """The run wrote nothing to the store: nobody has confirmed unattended runs yet."""
    paused: str = ""
    """Why the gate was paused; such a run read nothing."""
    read: Read = Read()
    outcomes: Outcomes = Outcomes()
    reasons: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Groups by decision and deciding rule."""
    promoted: tuple[str, ...] = ()
    demoted: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    proposed: tuple[str, ...] = ()
    """Keys of lessons whose demotion waits for a person."""
    harmful: tuple[str, ...] = ()
    proof: dict[str, Any] = Field(default_factory=dict)
    """What the batch's proof said: numbers and ids of questions; empty: none was asked for."""
    distiller: dict[str, int] = Field(default_factory=dict)
    judged: dict[str, int] = Field(default_factory=dict)
    error: str = ""
    curated: int | None = None
    """Lessons at the end of the run; None: not known, the store was not read."""
    archive: int | None = None
    waiting: int | None = None
    """Candidates and held lessons a person has to decide on at the end of the run."""
    oldest_waiting: str = ""
    by_age: dict[str, int] = Field(default_factory=dict)
    """Waiting ones by age: `7d`, `30d`, `90d`, `older`."""


class RunLines(list[RunLine]):
    """Run lines, oldest first."""

    unreadable: int = 0
    """Lines that were none."""


class Waiting(NamedTuple):
    """What waits for a person, as the last run that read the store saw it."""

    lessons: int = 0
    oldest: str = ""
    """When the oldest was first seen, "" without one."""


class Span(NamedTuple):
    """When a run began and ended."""

    began: datetime
    ended: datetime

    @property
    def fields(self) -> dict[str, object]:
        """Return it as a run line carries it; a clock set back makes it 0 s long."""
        seconds = max(0.0, (self.ended - self.began).total_seconds())
        return {
            "started": iso(self.began),
            "ended": iso(self.ended),
            "seconds": round(seconds, 3),
        }


def append_run(state: Path, line: RunLine) -> None:
    """Add a line, on disk before it returns; raise StoreError. Needs no lock of the gate."""
    private_folder(state)
    with appending(state / NAME) as add:
        add(line.model_dump_json().encode())


def read_runs(state: Path, domain: str | Collection[str] = "", last: int | None = None) -> RunLines:
    """Return the (last) lines, of one or several domains if any is named; no file is none.

    Raises StoreError where the file is there and cannot be read.
    """
    path = state / NAME
    wanted = {domain} - {""} if isinstance(domain, str) else {*domain}
    with file_errors(path):
        raw = path.read_bytes().split(b"\n") if path.exists() else []
    found = RunLines()
    for text in reversed(raw):
        if last is not None and len(found) >= last:
            break
        if not text.strip():
            continue
        try:
            line = RunLine.model_validate_json(text)
        except ValidationError:
            found.unreadable += 1
            continue
        if not wanted or line.domain in wanted:
            found.append(line)
    found.reverse()
    return found


def last_waiting(state: Path, domain: str) -> Waiting:
    """Return what the last run that looked left waiting."""
    for line in reversed(read_runs(state, domain)):
        if line.waiting is not None:
            return Waiting(line.waiting, line.oldest_waiting)
    return Waiting()


def run_line(report: RunReport, store: str, span: Span, **known: object) -> RunLine:
    """Return the line of a run; `known` are further fields, such as `snapshot` or `waiting`."""
    counts = report.counts()
    reasons: dict[str, Counter[str]] = {}
    keys: dict[str, list[str]] = {}
    for outcome in report.outcomes:
        word = outcome.verdict.decision.value
        reasons.setdefault(word, Counter())[outcome.verdict.rule] += 1
        keys.setdefault(word, []).append(outcome.lesson.key)
    read = {
        "candidates": report.candidates,
        "groups": len(report.outcomes),
        "events": report.folded,
        "unreadable": report.unreadable,
    }
    fields: dict[str, object] = {
        "run": report.run,
        "domain": report.domain,
        "mode": report.mode.value,
        "store": store,
        "read": read,
        "outcomes": counts,
        "reasons": {word: dict(found) for word, found in reasons.items()},
        "promoted": keys.get("promote", []),
        "held": keys.get("hold", []),
        "demoted": [one.key for one in report.decay.demoted] if report.decay else [],
        "proposed": [one.key for one in report.decay.proposed] if report.decay else [],
        "harmful": [one.row.key for one in report.harmful],
        "proof": report.proof.as_dict() if report.proof else {},
        "distiller": dict(report.distiller),
        "judged": dict(report.judged),
        "error": told_error(report.error),
    }
    return RunLine.model_validate(fields | span.fields | known)


def told_error(text: str) -> str:
    """Return an error as a run line carries it: one line, masked, bounded."""
    return shorten(mask_through(scrub(" ".join(text.split()))), ERROR_LIMIT)


def ages(moments: Iterable[datetime], now: datetime) -> dict[str, int]:
    """Return how many moments lie how far back, see `RunLine.by_age`."""
    found = {name: 0 for _, name in AGES} | {"older": 0}
    for moment in moments:
        days = (now - moment).total_seconds() / 86400
        found[next((name for bound, name in AGES if days <= bound), "older")] += 1
    return found
