"""Write a run's line however the run ends, and post it where that is wanted.

A paused gate's run ends here with exit code 0. A run that failed is counted by its
ledger lines: they tell what was done, whatever was still in memory. A line that cannot
be written costs one warning, never the run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import typer

from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.clock import parse_iso, utc_now
from lessons_loop.promote.entry import INTERRUPTED
from lessons_loop.promote.ledger.chain import Ledger
from lessons_loop.promote.records import Action
from lessons_loop.promote.runs.notify import notify
from lessons_loop.promote.runs.pause import read_pause
from lessons_loop.promote.runs.register import RunLine, Span, ages, append_run, run_line, told_error
from lessons_loop.promote.runs.report import RunReport
from lessons_loop.promote.session import GateSession

COUNTED = {
    Action.PROMOTE: "promoted",
    Action.SUPERSEDE: "promoted",
    Action.DUPLICATE: "duplicates",
    Action.HOLD: "held",
    Action.REJECT: "rejected",
    Action.DEMOTE: "demoted",
}
KEYS = ("promoted", "demoted", "held")


@dataclass
class Recorder:
    """Collects what a run did."""

    state: Path
    store: str
    """Its title, which holds no secret."""
    domain: str
    mode: str
    actor: str
    preview: bool = False
    notify_url: str = ""
    run: str = ""
    report: RunReport | None = None
    known: dict[str, object] = field(default_factory=dict)
    """Fields of the line that the session told."""

    def opened(self, session: GateSession) -> None:
        """Note who runs where; a preview's waiting ones are those before it began."""
        self.run = session.run
        if self.preview:
            self._note_waiting(session)

    def finished(self, session: GateSession, report: RunReport) -> None:
        """Note what the run did and left."""
        self.report = report
        self.known["snapshot"] = "" if self.preview else session.snapshot
        if self.preview:
            return
        self.known |= {"curated": len(session.curated), "archive": len(session.archive)}
        self._note_waiting(session)

    def _note_waiting(self, session: GateSession) -> None:
        firsts: dict[str, list[str]] = {}
        for seen in session.candidates():
            firsts.setdefault(seen.lesson.key, []).append(seen.at)
        for row in session.held():
            times = [seen.at for seen in row.all_sightings] or [row.at]
            firsts.setdefault(row.lesson.key, []).extend(times)
        now = session.now()
        moments = [min(_moments(times, now), default=now) for times in firsts.values()]
        self.known |= {
            "curated": len(session.curated),
            "archive": len(session.archive),
            "waiting": len(moments),
            "oldest_waiting": f"{min(moments):%Y-%m-%dT%H:%M:%SZ}" if moments else "",
            "by_age": ages(moments, now),
        }

    def line(self, span: Span, **ending: object) -> RunLine:
        """Return the run's line."""
        known = self.known | {"actor": self.actor, "preview": self.preview} | ending
        if self.report is not None:
            return run_line(self.report, self.store, span, **known)
        fields = {"run": self.run, "domain": self.domain, "mode": self.mode, "store": self.store}
        done = {} if self.preview else self._from_ledger()
        return RunLine.model_validate(fields | done | span.fields | known)

    def _from_ledger(self) -> dict[str, object]:
        if not self.run:
            return {}
        try:
            entries = [one for one in Ledger(self.state).entries() if one.run == self.run]
        except LessonsError:
            return {}
        counts = Counter(COUNTED[one.action] for one in entries if one.action in COUNTED)
        keys = {
            word: [one.key for one in entries if COUNTED.get(one.action) == word] for word in KEYS
        }
        return {"outcomes": dict(counts), **keys}


def _moments(times: list[str], now: datetime) -> list[datetime]:
    return [min(moment, now) for text in times if (moment := parse_iso(text))]


@contextmanager
def recorded(
    recorder: Recorder, tell: Callable[[str], None], now: Callable[[], datetime] = utc_now
) -> Iterator[Recorder]:
    """Write the block's line at its end; a paused gate's block is not begun.

    Raises typer.Exit(0) where the gate is paused, after `tell` has told so.
    """
    began = now()
    if found := read_pause(recorder.state, os.environ):
        tell(found.told)
        ending = {"paused": found.why, "preview": False}
        _write(recorder, recorder.line(Span(began, now()), **ending))
        raise typer.Exit(0)
    try:
        yield recorder
    except BaseException as error:
        told = _told(error)
        line = recorder.line(Span(began, now()), **({"error": told} if told else {}))
        if recorder.state.is_dir():
            _write(recorder, line, warn=False)  # one fault, one line
        raise
    _write(recorder, recorder.line(Span(began, now())))


def _told(error: BaseException) -> str:
    if isinstance(error, typer.Exit):
        return "interrupted" if error.exit_code == INTERRUPTED else ""
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return "interrupted"
    return told_error(str(error) or type(error).__name__)


def _write(recorder: Recorder, line: RunLine, *, warn: bool = True) -> None:
    try:
        append_run(recorder.state, line)
    except LessonsError as error:
        if warn:
            typer.echo(f"lessons: this run is not in the run register: {error}", err=True)
    if recorder.notify_url.strip() and (failure := notify(recorder.notify_url, line)):
        typer.echo(f"lessons: {failure}", err=True)
