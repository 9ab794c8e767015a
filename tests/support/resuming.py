"""Workers one after another on one store: what one leaves unlearned, the next takes up."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from types import SimpleNamespace

from lessons_loop.filter.host import StoredAnswer
from lessons_loop.filter.lessons_filter import CARRIER, Filter, tick
from lessons_loop.filter.models import Candidate
from lessons_loop.filter.store import StorePaths
from lessons_loop.filter.unfinished import Signs
from support.gate import HashEmbedder
from support.learning import staged_records
from support.outlet import outlet_body
from support.patient import PATIENT_MS
from support.shelf import shelf

EMBEDDER = HashEmbedder(64)
GIVEN = shelf()[0]
USER = {"id": "user-1", "valves": Filter.UserValves()}
REQUEST = SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(MODELS={})))


class Saved:
    """Saved chats, valves and wishes as they are now; stands in for Open WebUI's database."""

    def __init__(self, **valves):
        self.stored = valves
        self.active, self.owner = True, "user-1"
        self.own = {}
        self.gone = set()

    async def answer(self, chat, message):
        if message in self.gone:
            return None
        told = [dict(m) for m in outlet_body(chat, message)["messages"]]
        told[-1].pop("finish_reason")
        return StoredAnswer(tuple(told), self.owner, "m")

    async def valves(self, plugin):
        return self.stored if self.active and plugin == "lessons" else None

    async def own_valves(self, plugin, user):
        return self.own


class Lives:
    """Workers one after another on one store; all but the last end while they learn."""

    def __init__(self, root, server):
        self.paths = StorePaths(root)
        settings = {"distill_enabled": True, "distill_url": server.url, "distill_model": "m"}
        settings["recall_timeout_ms"] = PATIENT_MS
        self.source = Saved(**settings, store=str(root), domains="sql")
        self.server = server

    def worker(self):
        plugin = Filter()
        plugin.valves = Filter.Valves(**self.source.stored)
        plugin.plugin, plugin.app = "lessons", REQUEST.app
        resumption = plugin._ready(plugin.valves).resumption
        resumption.source = self.source
        resumption.learner.underway.register.signs = Signs(0.0)  # whoever is there is dead
        return plugin

    def die(self, *bodies, metadata=None, asked=1):
        """Run a worker that is told of answers and ends once the model was asked."""

        async def scene():
            plugin, before = self.worker(), len(self.server.requests)
            for body in bodies:
                said = await plugin.outlet(body, USER, metadata or {}, REQUEST, "lessons")
                assert said is body
            if not bodies:
                await tick(plugin)
            deadline = time.monotonic() + 60
            while len(self.server.requests) < before + asked and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
            assert len(self.server.requests) == before + asked

        asyncio.run(scene())

    def live(self, *bodies, first=lambda plugin: None):
        """Run a worker that is told of answers and takes up what there is; return its counts."""

        async def scene():
            plugin = self.worker()
            first(plugin)
            for body in bodies:
                await plugin.outlet(body, USER, {}, REQUEST, "lessons")
            await tick(plugin)
            assert await plugin.worker.settle(120) == 0
            await plugin.backend.learner.drain()
            return plugin.backend.learner.counts

        return asyncio.run(scene())

    def left(self, column="message"):
        """Return what is noted of the answers still under way."""
        with closing(sqlite3.connect(self.paths.root / "attempts.sqlite")) as found:
            return [
                m for (m,) in found.execute(f"select {column} from unfinished order by message")
            ]

    def rows(self, name):
        return staged_records(self.paths, name)

    def candidates(self):
        return [Candidate.from_record(row) for row in self.rows("sql-lessons-candidates")]


def given(*lessons, used=True):
    """What inlet left of these lessons."""
    keys = [lesson.key for lesson in lessons]
    texts = [lesson.lesson.text for lesson in lessons]
    carried = {"block": "", "keys": {"sql": keys} if used else {}, "shown": keys, "texts": texts}
    return {CARRIER: carried}


def patient(plugin):
    """Let others live."""
    plugin.backend.learner.underway.register.signs = Signs()
