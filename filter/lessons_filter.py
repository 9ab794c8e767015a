"""
title: Lessons Loop
author: lessons-loop
version: 0.1.0
schema: 2
required_open_webui_version: 0.12.0
license: MIT
description: Recalls curated lessons into new chats and stages lesson candidates from finished ones.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from lessons_loop.filter.alerts import Alerts, lessons_log
from lessons_loop.filter.answer import CARRIER, app_of, read_exchange
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.inject import block, has_block, inject, reference
from lessons_loop.filter.learner import Learner
from lessons_loop.filter.models import Curated
from lessons_loop.filter.place import store_folder, store_setting
from lessons_loop.filter.question import only_thanks, read_question
from lessons_loop.filter.reader import CuratedReader, keep_refreshed
from lessons_loop.filter.recaller import Limits, Recaller
from lessons_loop.filter.resume import Resumption
from lessons_loop.filter.server import is_server, parse_server, server_token
from lessons_loop.filter.server_shelf import CuratedServer
from lessons_loop.filter.server_staging import ServerStaging
from lessons_loop.filter.shelves import PublishedFolder, ShelfSource
from lessons_loop.filter.spool import FolderStaging, Spool, StagingSink
from lessons_loop.filter.store import StorePaths, first_line
from lessons_loop.filter.text import shorten
from lessons_loop.filter.transcript import SOURCE_MARK
from lessons_loop.filter.valves import LessonsUserValves, LessonsValves
from lessons_loop.filter.worker import Worker, in_daemon_thread

RECALL_SECONDS_LIMIT = 30.0
"""Longest time recall may hold a chat back, whatever the valve says."""
LESSONS_LIMIT = 64
"""Most lessons of one question: an event holds that many keys."""
SHOW_SECONDS = 30.0
"""Longest time the user's browser is waited for."""
NAME_LIMIT = 60
"""Characters of the trigger in a source's name: by the reference alone nobody knows a lesson."""
Body = dict[str, Any]
Emitter = Callable[[dict[str, Any]], Awaitable[Any]]


class LessonsBackend:
    """What the hooks work with, for one store and one list of domains."""

    def __init__(self, valves: LessonsValves, alerts: Alerts, worker: Worker) -> None:
        paths = StorePaths(store_folder(valves.store))
        source, staging = opened_store(valves, paths)
        self.settings, self.alerts = store_settings(valves), alerts
        self.reader = CuratedReader(source, valves.domain_names(), alerts)
        self.recaller = Recaller(self.reader, alerts)
        self.spool = Spool(paths, staging)
        self.learner = Learner(self.spool, worker, alerts)
        self.resumption = Resumption(self.learner, self.reader, self.fits)

    def fits(self, valves: LessonsValves) -> bool:
        """Say whether these valves still mean this backend."""
        return store_settings(valves) == self.settings

    async def close(self) -> None:
        """Let go of connections; records that wait are found by the next backend."""
        await in_daemon_thread(self.reader.close)
        await in_daemon_thread(self.spool.close)


def store_settings(valves: LessonsValves) -> tuple[str, str, str]:
    """Return the settings a backend is made for."""
    return valves.store, valves.domains, valves.chroma_token


def opened_store(valves: LessonsValves, paths: StorePaths) -> tuple[ShelfSource, StagingSink]:
    """Return where lessons come from and where records go; connects to nothing yet."""
    setting = store_setting(valves.store)
    if not is_server(setting):
        return PublishedFolder(paths), FolderStaging(paths)
    address, token = parse_server(setting), server_token(valves.chroma_token)
    return CuratedServer(address, token), ServerStaging(address, token)


class Filter:
    """Recalls before the question is sent, stages candidates after the answer; fails open."""

    class Valves(LessonsValves):
        """Settings of the administrator."""

    class UserValves(LessonsUserValves):
        """Settings each user makes for himself."""

    def __init__(self) -> None:
        self.valves = self.Valves()
        self.alerts = Alerts()
        self.worker = Worker()
        self.backend: LessonsBackend | None = None
        self.timer: asyncio.Task[None] | None = None
        self.plugin, self.app = "", None

    async def inlet(
        self,
        body: Body,
        __user__: Body | None = None,
        __metadata__: Body | None = None,
        __request__: Any = None,
        __event_emitter__: Emitter | None = None,
        __id__: str = "",
    ) -> Body:
        """Add the lessons that fit the question; on any trouble return the body as it came."""
        valves = self.valves
        self._runs_in(__id__, __request__)
        try:
            changed = await self._recalled(
                body, valves, __user__, __metadata__, __request__, __event_emitter__
            )
            self.alerts.clear("recall")
            return changed
        except Exception as error:
            self._failed("recall", error)
            return body

    async def request(self, body: Body, __metadata__: Body | None = None) -> Body:
        """Add the block again where the tool loop dropped it."""
        try:
            carried = (__metadata__ or {}).get(CARRIER)
            if isinstance(carried, Mapping) and not has_block(body):
                return inject(body, carried["block"])
        except Exception as error:
            self._failed("re-adding lessons", error)
        return body

    async def outlet(
        self,
        body: Body,
        __user__: Body | None = None,
        __metadata__: Body | None = None,
        __request__: Any = None,
        __id__: str = "",
    ) -> Body:
        """Queue what the finished answer gives and return at once, the body untouched."""
        valves = self.valves
        self._runs_in(__id__, __request__)
        try:
            exchange = read_exchange(body, __user__, __metadata__, __request__)
            chosen = user_valves(__user__)
            backend = self._ready(valves)
            contribute = chosen.contribute and chosen.use_lessons
            backend.learner.offer(exchange, valves, contribute=contribute, plugin=self.plugin)
        except Exception as error:
            self._failed("learning", error)
        return body

    def _runs_in(self, plugin: str, request: Any) -> None:
        """Remember the server and the function's id in it, for work beside the hooks."""
        self.plugin = plugin or self.plugin
        self.app = app_of(request) or self.app

    async def _recalled(
        self,
        body: Body,
        valves: LessonsValves,
        user: Body | None,
        metadata: Body | None,
        request: Any,
        emitter: Emitter | None,
    ) -> Body:
        chosen = user_valves(user)
        if not (valves.recall_enabled and valves.top_k and valves.token_budget):
            return body
        if not chosen.use_lessons or not isinstance(body.get("messages"), list):
            return body
        started = time.monotonic()
        question = read_question(body["messages"], metadata)
        limits = limits_of(valves)
        chat = str((metadata or {}).get("chat_id") or "")
        app = app_of(request)
        backend = self._ready(valves)
        async with asyncio.timeout(limits.seconds + 0.2):
            lessons = await backend.recaller.recall(question, app, limits, chat)
        if valves.debug:
            spent = 1000 * (time.monotonic() - started)
            lessons_log.info("recall: %d lessons in %.0f ms", len(lessons), spent)
        if not lessons:
            return body
        text, asked = block(lessons), not only_thanks(question)
        if isinstance(metadata, dict):
            metadata[CARRIER] = carried(lessons, text, used=asked)
        if emitter is not None and asked and valves.show_lessons and chosen.show_lessons:
            self.worker.spawn(lambda: show(emitter, lessons))
        return inject(body, text)

    def _ready(self, valves: LessonsValves) -> LessonsBackend:
        """Return the backend of these valves, with its timer running on this loop."""
        backend = self.backend
        if backend is None or backend.settings != store_settings(valves):
            backend = self._replace_backend(valves)
        if self.timer is None or self.timer.done() or self.timer.get_loop().is_closed():
            self.timer = keep_refreshed(self, tick)
        return backend

    def _replace_backend(self, valves: LessonsValves) -> LessonsBackend:
        old, alerts = self.backend, Alerts() if self.backend else self.alerts
        backend = LessonsBackend(valves, alerts, self.worker)
        self.backend, self.alerts = backend, alerts  # other settings, other troubles
        if old is not None:
            self.worker.spawn(old.close)
        return backend

    def _failed(self, what: str, error: Exception) -> None:
        # the text of an unforeseen error may repeat a chat's
        reason = first_line(error) if isinstance(error, LessonsError) else type(error).__name__
        self.alerts.warn(what, f"{what} failed, the chat goes on without: {reason}")
        lessons_log.debug("%s failed", what, exc_info=True)


async def tick(owner: object) -> None:
    """Refresh the lessons and move waiting records on: what the timer does."""
    if not isinstance(owner, Filter) or owner.backend is None:
        return
    backend = owner.backend
    try:
        await in_daemon_thread(backend.reader.refresh)
        await backend.learner.drain()
        await backend.resumption.take_up(owner.plugin, owner.app)
    except Exception as error:  # the timer must survive whatever a file can hold
        backend.reader.alerts.warn("refreshing", f"refreshing lessons failed: {first_line(error)}")


def limits_of(valves: LessonsValves) -> Limits:
    """Return the limits of one question, nonsensically large ones cut down."""
    seconds = min(valves.recall_timeout_ms / 1000, RECALL_SECONDS_LIMIT)
    top_k, budget = min(valves.top_k, LESSONS_LIMIT), valves.token_budget
    return Limits(top_k, budget, valves.floor(), seconds, valves.rerank)


def carried(lessons: tuple[Curated, ...], text: str, *, used: bool) -> Body:
    """Return what the later hooks of the same answer need; plain JSON values.

    Lessons that only stay for the prompt's sake, under thanks, are not `used`.
    """
    keys: dict[str, list[str]] = {}
    for lesson in lessons if used else ():
        keys.setdefault(lesson.lesson.domain, []).append(lesson.key)
    shown = [lesson.key for lesson in lessons]
    texts = [lesson.lesson.text for lesson in lessons]
    return {"block": text, "keys": keys, "shown": shown, "texts": texts}


async def show(emitter: Emitter, lessons: tuple[Curated, ...]) -> None:
    """Tell the user which lessons were used: a status line, then each as a source."""
    count = len(lessons)
    line = f"Using {count} learned lesson{'s' if count > 1 else ''}"
    async with asyncio.timeout(SHOW_SECONDS):
        await emitter({"type": "status", "data": {"description": line, "done": True}})
        for curated in lessons:
            await emitter({"type": "source", "data": lesson_source(curated)})


def lesson_source(curated: Curated) -> Body:
    """Return a lesson as a source: text, trigger, since when, reference; nothing of a chat."""
    name = f"Lesson {reference(curated.key)}: {shorten(curated.lesson.trigger, NAME_LIMIT)}"
    lines = [
        curated.lesson.text,
        "",
        f"Applies to: {curated.lesson.trigger}",
        f"Learned: {curated.since[:10]}",
    ]
    meta = {"source": name, "name": name, "kind": curated.lesson.kind.value, SOURCE_MARK: True}
    return {"source": {"name": name}, "document": ["\n".join(lines)], "metadata": [meta]}


def user_valves(user: Body | None) -> LessonsUserValves:
    """Return the user's own settings, defaults where there are none of ours."""
    stored = (user or {}).get("valves")
    if isinstance(stored, LessonsUserValves):
        return stored
    values = stored if isinstance(stored, Mapping) else getattr(stored, "__dict__", {})
    return LessonsUserValves.model_validate(dict(values))
