"""A filter that learns from finished answers, with what reached its store."""

from __future__ import annotations

import asyncio

from lessons_loop.filter.events import Usage
from lessons_loop.filter.lessons_filter import Filter
from lessons_loop.filter.models import Candidate, Record
from lessons_loop.filter.store import StorePaths, staging_session
from support.patient import PATIENT_MS


class Loop:
    """A filter that learns through a local model server into a store of its own."""

    def __init__(self, root, server, user_valves=None, **valves):
        settings = {"distill_enabled": True, "distill_url": server.url, "distill_model": "m"}
        self.filter = Filter()
        settings |= {"store": str(root), "domains": "sql", "recall_timeout_ms": PATIENT_MS}
        self.filter.valves = Filter.Valves(**(settings | valves))
        self.paths = StorePaths(root)
        self.user = {"id": "user-1", "valves": Filter.UserValves(**(user_valves or {}))}

    def run(self, *bodies, metadata=None, settle=60.0):
        async def scene():
            for body in bodies:
                returned = await self.filter.outlet(
                    body=body, __user__=self.user, __metadata__=metadata or {}
                )
                assert returned is body
            await self.filter.worker.settle(settle)
            await self.filter.backend.learner.drain()

        asyncio.run(scene())
        return self.filter.backend.learner.counts

    def rows(self, name):
        return staged_records(self.paths, name)

    def candidates(self):
        return [Candidate.from_record(r) for r in self.rows("sql-lessons-candidates")]

    def usages(self):
        return [Usage.from_record(r) for r in self.rows("sql-lessons-events")]


def staged_records(paths, name):
    """Return what a staging collection in a folder holds; nothing where there is none yet."""
    with staging_session(paths) as client:
        if name not in [c.name for c in client.list_collections()]:
            return []
        got = client.get_collection(name, embedding_function=None).get()
    return [
        Record(i, d, m)
        for i, d, m in zip(got["ids"], got["documents"], got["metadatas"], strict=True)
    ]
