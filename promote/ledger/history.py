"""Read the ledger's past: which decisions, by lesson, run, actor, day or action.

The ledger file alone is read: no store, no lock, nothing embedded. What a decision was
about is taken from its payload, where that is still there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from lessons_loop.filter.errors import StoreError
from lessons_loop.promote.clock import iso, parse_iso
from lessons_loop.promote.decide.changes import masked_values
from lessons_loop.promote.ledger.chain import Ledger, LedgerEntry
from lessons_loop.promote.records import Actor


@dataclass(frozen=True)
class Wanted:
    """Which lines to show; empty fields exclude nothing."""

    lesson: str = ""
    """Start of a lesson's key."""
    run: str = ""
    """Start of a run's name."""
    actor: str = ""
    """Part of the actor's name, model or kind, any case."""
    action: str = ""
    domain: str = ""
    since: str = ""
    """ISO 8601, UTC, inclusive."""
    until: str = ""
    """ISO 8601, UTC, exclusive."""

    def takes(self, entry: LedgerEntry) -> bool:
        """Say whether a line is wanted; a time that names none is outside every span."""
        return (
            entry.key.startswith(self.lesson)
            and entry.run.startswith(self.run)
            and self.actor.casefold() in actor_words(entry.actor).casefold()
            and self.action in ("", entry.action.value)
            and self.domain in ("", entry.domain)
            and self._in_time(entry.at)
        )

    def _in_time(self, at: str) -> bool:
        if not (self.since or self.until):
            return True
        moment = parse_iso(at)
        shown = iso(moment) if moment else ""
        return bool(shown) and self.since <= shown and (not self.until or shown < self.until)


class Past(NamedTuple):
    """Lines found, oldest first, with the text each was about."""

    entries: list[LedgerEntry]
    texts: dict[int, str]
    """By line number; "" where the payload is gone or tells no lesson."""
    matching: int
    """Lines that were wanted, those beyond the limit included."""
    unreadable: int
    """Lines of the file that are none: `lessons verify` names them."""

    def as_dict(self) -> dict[str, Any]:
        """Return it for machines, masked."""
        rows = [
            entry.model_dump(mode="json") | {"text": self.texts[entry.n]} for entry in self.entries
        ]
        content = {"lines": rows, "matching": self.matching, "unreadable": self.unreadable}
        return dict(masked_values(content))


def read_history(state: Path, wanted: Wanted, limit: int = 0) -> Past:
    """Return the newest `limit` lines that are wanted (0: all); raise StoreError."""
    ledger = Ledger(state)
    if not ledger.path.exists():
        raise StoreError(f"no ledger in {state}: check --store or --state-dir")
    lines = ledger.lines()
    found = [line.entry for line in lines if line.entry and wanted.takes(line.entry)]
    shown = found[-limit:] if limit else found
    texts = {entry.n: _text(ledger, entry) for entry in shown}
    bad = sum(line.entry is None for line in lines)
    return Past(shown, texts, len(found), bad)


def _text(ledger: Ledger, entry: LedgerEntry) -> str:
    try:
        payload = ledger.payload(entry) or {}
    except ValueError:
        return ""
    for name in ("edited", "lesson", "curated"):
        part = payload.get(name)
        part = part.get("lesson", part) if isinstance(part, dict) else None
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            return str(part["text"])
    return ""


def actor_words(actor: Actor) -> str:
    """Return who decided, as shown and searched."""
    return " ".join(word for word in (actor.kind, actor.name, actor.model) if word)


def span_of(day: str, since: str, until: str, now: datetime) -> tuple[str, str]:
    """Return the bounds of `Wanted` for what a person typed; raise ValueError naming it.

    A day counts as the whole UTC day; `until` includes the day it names.
    """
    if day and (since or until):
        raise ValueError("--day goes without --since and --until")
    if day:
        since = until = day
    return _bound(since, now, end=False), _bound(until, now, end=True)


def _bound(text: str, now: datetime, *, end: bool) -> str:
    word = text.strip().lower()
    if not word:
        return ""
    days = {"today": 0, "yesterday": 1}
    if word in days or (word.endswith("d") and word[:-1].isdigit() and len(word) < 6):
        back = timedelta(days=days[word] if word in days else int(word[:-1]))
        date = (now.astimezone(UTC) - back).date()
    else:
        moment = parse_iso(text)
        if moment is None:
            raise ValueError(f"{text[:40]!r} is no day: give 2026-11-30, today, yesterday or 7d")
        if len(word) > 10:
            return iso(moment + timedelta(seconds=1) if end else moment)
        date = moment.date()
    start = datetime.combine(date, time(), UTC)
    return iso(start + timedelta(days=1) if end else start)
