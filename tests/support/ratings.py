"""An Open WebUI's feedback as the rating plugin sees it, and the rows that come of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lessons_loop.filter.lessons_rating import Event
from lessons_loop.filter.rating_host import FilterFacts
from lessons_loop.filter.valves import LessonsValves


class Feedbacks:
    """Feedback rows in a dict; satisfies RatingHost."""

    def __init__(self, store: Path, **valves: object) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.opted_out: set[str] = set()
        self.installed = True
        self.valves = {"store": str(store), "domains": "sql"} | valves

    async def feedback(self, name: str) -> Mapping[str, Any] | None:
        await asyncio.sleep(0)
        return self.rows.get(name)

    async def filter_facts(self) -> FilterFacts | None:
        valves = LessonsValves.model_validate(self.valves)
        return FilterFacts("lessons_filter", valves) if self.installed else None

    async def contributes(self, function: str, user: str) -> bool:
        return user not in self.opted_out


class Thumbs:
    """A rating plugin that hears what a page does."""

    def __init__(self, store: Path, **valves: object) -> None:
        self.store = store
        self.host = Feedbacks(store, **valves)
        self.plugin = Event()
        self.plugin.host = self.host

    def hear(self, name: str, whom: str, kind: str = "feedback") -> None:
        """Tell of one event, as Open WebUI does."""
        heard = {"event": name, "subject": {"type": kind, "id": whom}, "data": {"rating": 1}}
        asyncio.run(self.plugin.event(event=heard))

    def rate(
        self, whom: str, rating: object, user: str = "user-1", chat: str = "chat-1", **more: object
    ) -> None:
        """Give or change a thumb: the row is stored, then the event comes."""
        known = whom in self.host.rows
        meta = {"chat_id": chat, "message_id": f"msg-{whom}"}
        data = {"rating": rating} | more
        row = {"id": whom, "user_id": user, "type": "rating", "data": data, "meta": meta}
        self.host.rows[whom] = row
        self.hear(f"feedback.{'updated' if known else 'created'}", whom)

    def delete(self, whom: str) -> None:
        """Delete a feedback."""
        self.host.rows.pop(whom, None)
        self.hear("feedback.deleted", whom)

    def spooled(self, domain: str = "sql") -> list[dict[str, Any]]:
        """Return the metadata of what waits for staging, the oldest first."""
        found = [json.loads(f.read_text("utf-8")) for f in sorted(self.store.glob("spool/*.json"))]
        mine = [entry for entry in found if entry["collection"] == f"{domain}-lessons-events"]
        return [
            entry["record"][2] if isinstance(entry["record"], list) else entry["record"]["metadata"]
            for entry in mine
        ]

    def outcomes(self, domain: str = "sql") -> list[str]:
        """Return the outcomes that wait, the oldest first."""
        return [row["outcome"] for row in self.spooled(domain)]
