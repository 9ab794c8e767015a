"""A real Open WebUI for the e2e tests, against the fake provider, with the plugin installed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from lessons_loop.deploy.processes import Child, free_port
from lessons_loop.deploy.webui.browser import Browser, Turn, open_browser
from lessons_loop.deploy.webui.client import OpenWebUI
from lessons_loop.deploy.webui.install_ratings import install_ratings
from lessons_loop.deploy.webui.plugin_file import plugin_source
from lessons_loop.deploy.webui.server import (
    ADMIN_EMAIL,
    ServerSettings,
    start_server,
    wait_until_ready,
)
from lessons_loop.filter.embed import Embedder
from lessons_loop.filter.events import Rating, Usage
from lessons_loop.filter.models import Candidate, Kind, Lesson, Record
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import StorePaths, staging_session
from lessons_loop.filter.text import digest
from lessons_loop.promote.embedding.embedders import parse_embedding
from lessons_loop.promote.exchange.intake import take_in
from lessons_loop.promote.records import Actor
from lessons_loop.promote.session import GateSession, GateSettings, open_gate
from lessons_loop.promote.store.initialise import initialise
from support.processes import soon
from support.provider import Provider

PASSWORD = "obviously-fake-1"
PLUGIN = "lessons_filter"
RATING_PLUGIN = "lessons_rating"
MODEL = "fake-chat"
PATIENT: dict[str, object] = {"recall_timeout_ms": 15_000}
"""On a busy machine recall misses its usual 1.5 s, and the chat goes on without lessons."""
VALVES: dict[str, object] = {
    **PATIENT,
    "domains": "sql",
    "distill_enabled": True,
    "min_similarity": "0.3",
}
"""The plugin's valves in the e2e tests, set before each."""


class Server:
    """One Open WebUI with its store, provider and admin client; can be stopped and restarted."""

    def __init__(self, folder: Path, provider: Provider) -> None:
        self.provider = provider
        self.paths = StorePaths(folder / "lessons")
        self.settings = ServerSettings(
            data=folder / "openwebui",
            port=free_port(),
            secret="obviously-fake-secret",
            password=PASSWORD,
            store=self.paths.root,
            models={
                "ENABLE_OLLAMA_API": "false",
                "OPENAI_API_BASE_URL": provider.url,
                "OPENAI_API_KEY": "fake",
            },
            embedding={
                "RAG_EMBEDDING_ENGINE": "openai",
                "RAG_OPENAI_API_BASE_URL": provider.url,
                "RAG_OPENAI_API_KEY": "fake",
                "RAG_EMBEDDING_MODEL": "fake-embed",
            },
            extra={"BYPASS_MODEL_ACCESS_CONTROL": "true", "LESSONS_SALT": "fake-salt"},
        )
        self.admin = OpenWebUI(self.settings.url)
        self.child: Child | None = None
        self._users: dict[str, OpenWebUI] = {}

    @property
    def embedder(self) -> Embedder | None:
        """The gate's embedder: the same endpoint Open WebUI asks."""
        return parse_embedding(f"openai:fake-embed@{self.provider.url}", os.environ)

    def gate(self, work: Callable[[GateSession], Any]) -> Any:
        """Run `work(session)` as a gate on this store."""
        with open_gate(GateSettings(str(self.paths.root), "sql", None, self.embedder)) as session:
            return work(session)

    def teach(self, *lessons: tuple[str, str]) -> None:
        """Make the store where it is missing and put (trigger, text) lessons into curated."""
        initialise(str(self.paths.root), ["sql"], self.embedder)
        made = [
            Lesson(domain="sql", kind=Kind.PERF_GUARD, trigger=trigger, text=text, source="taught")
            for trigger, text in lessons
        ]
        offered = [(lesson, lesson.key[:12]) for lesson in made]
        self.gate(lambda session: take_in(session, offered, Actor(kind="seed", name="test")))

    def staged(self) -> list[Candidate]:
        """Return the candidates in staging."""
        return list(self.gate(lambda session: session.candidates()))

    def usages(self) -> list[Usage]:
        """Return the usage events in staging."""
        return [usage for _, usage in self.gate(lambda session: session.usages())]

    def usage_of(self, turn: Turn) -> Usage:
        """Wait for the usage event of an answer: those of earlier tests may still arrive."""
        own = digest("message", turn.message_id)
        found = soon(lambda: [one for one in self.usages() if one.message_ref == own])
        return cast(Usage, found[0])

    def move_spooled(self) -> None:
        """Move what waits in the spool on into staging, as the plugin's timer does."""
        Spool(self.paths).drain(seconds=60.0)

    def ratings(self, message: str) -> list[Rating]:
        """Return the ratings of an answer, spooled ones moved on, the oldest first."""
        self.move_spooled()
        with staging_session(self.paths, 60.0) as client:
            found = client.get_collection("sql-lessons-events", embedding_function=None).get(
                where={"type": "rating"}
            )
        rows = zip(found["ids"], found["documents"], found["metadatas"], strict=True)
        all_of_them = [Rating.from_record(Record(i, d, dict(m))) for i, d, m in rows]
        mine = [one for one in all_of_them if one.message_ref == digest("message", message)]
        return sorted(mine, key=lambda one: one.at)

    @property
    def log(self) -> str:
        """What the server has logged since its last start."""
        return (self.settings.data / "open-webui.log").read_text("utf-8", errors="replace")

    def start(self) -> None:
        """Start the server and sign the admin in."""
        self.child = start_server(self.settings)
        wait_until_ready(self.child, self.settings)
        self.admin.sign_in(ADMIN_EMAIL, PASSWORD)
        self.admin.model_ids()

    def stop(self) -> None:
        """Stop the server; safe when it is not running."""
        if self.child:
            self.child.stop()
            self.child = None

    def restart(self) -> None:
        """Stop and start on the same data."""
        self.stop()
        self.start()

    def install(self, source: str, valves: dict[str, object]) -> None:
        """Install the plugin, active and global, with exactly these valves."""
        self.admin.install_function(PLUGIN, "Lessons", source)
        self.admin.set_valves("functions", PLUGIN, valves)

    def install_ratings(self) -> None:
        """Install the rating plugin beside the filter, its valve at the default."""
        install_ratings(self.admin, plugin_source(RATING_PLUGIN))
        self.admin.set_valves("functions", RATING_PLUGIN, {})

    def rate(self, turn: Turn, rating: int) -> None:
        """Give a thumb as the admin's page does with its first click."""
        meta = {"arena": False, "message_id": turn.message_id, "chat_id": turn.chat_id}
        form = {"type": "rating", "data": {"rating": rating}, "meta": meta, "snapshot": {}}
        self.admin.ask("POST", "/api/v1/evaluations/feedback", form)

    def user(self, name: str) -> OpenWebUI:
        """Return a client signed in as a user of that name, made on first use.

        Signed in once: Open WebUI takes 15 sign-ins in three minutes.
        """
        if name not in self._users:
            email = f"{name}@example.com"
            self.admin.add_user(name, email, PASSWORD)
            self._users[name] = self.admin.signed_in_as(email, PASSWORD)
        return self._users[name]

    def page(
        self, work: Callable[[Browser], Awaitable[Any]], client: OpenWebUI | None = None
    ) -> Any:
        """Run `work(browser)` on a page of the admin, or of `client`'s user."""

        async def run() -> Any:
            async with open_browser(client or self.admin) as browser:
                return await work(browser)

        return asyncio.run(run())

    def ask(self, text: str, client: OpenWebUI | None = None, **options: Any) -> Turn:
        """Ask one question in a new chat, as the web page does, and wait for the end."""
        return ask_in_page(client or self.admin, MODEL, text, **options)


def ask_in_page(client: OpenWebUI, model: str, text: str, **options: Any) -> Turn:
    """Ask one question in a new chat on a page of `client`'s user; wait for the end."""

    async def run() -> Turn:
        async with open_browser(client) as browser:
            return await browser.ask(model, text, **options)

    return asyncio.run(run())
