"""Recall for one chat turn: embed the question within the time limit, score, choose.

If embedding fails or is too slow, words alone decide; a failing engine is left
alone for a while, so that it costs one chat its time limit and not all of them.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

from lessons_loop.filter.alerts import Alerts
from lessons_loop.filter.embed import Fingerprint, Purpose, Vectors
from lessons_loop.filter.errors import EmbeddingMismatch, EmbedError, LessonsError
from lessons_loop.filter.host import HostEmbedder
from lessons_loop.filter.models import Curated
from lessons_loop.filter.question import Asked, Question, only_thanks, since, views
from lessons_loop.filter.reader import CuratedReader, Loaded
from lessons_loop.filter.recall import Judged, judge, select
from lessons_loop.filter.recall_index import RecallIndex
from lessons_loop.filter.rerank import Reranker

CHATS_KEPT = 5_000
PAUSE_SECONDS = 30.0
CHECK_SECONDS = 60.0
"""A fingerprint that takes longer is given up: a call that never ends must not be the last one."""
LONG_QUESTION = 10_000
"""Characters from which a question is cut into windows off the event loop (60,000: 80 ms)."""
SMALL_ENOUGH = 40_000
"""Lessons times views that are scored on the event loop: about 3 ms at most."""


class Limits(NamedTuple):
    """What the admin allows one question."""

    top_k: int
    token_budget: int
    floor: float | None
    seconds: float
    rerank: bool = False


class ChatState(NamedTuple):
    """What is remembered of one chat."""

    shown: tuple[str, ...] = ()
    """Keys of the lessons in its block now, in their order."""
    first: str = ""
    """The question that left the subject before it: older turns no longer count."""


class Recaller:
    """Recalls from a reader's lessons; remembers what each chat has been shown."""

    def __init__(
        self, reader: CuratedReader, alerts: Alerts, check_seconds: float = CHECK_SECONDS
    ) -> None:
        self.reader, self.alerts, self.check_seconds = reader, alerts, check_seconds
        self.chats: OrderedDict[str, ChatState] = OrderedDict()
        self.paused_until = 0.0
        self.reranker = Reranker(alerts)
        self._trusted: tuple[Any, Fingerprint | None] | None = None
        self._checking: tuple[Any, asyncio.Task[None]] | None = None
        self._warming: tuple[Any, asyncio.Task[Fingerprint]] | None = None

    async def recall(
        self, question: Question, app: Any, limits: Limits, chat: str
    ) -> tuple[Curated, ...]:
        """Return the lessons to inject, in order; never slower than the limit by much."""
        deadline = time.monotonic() + limits.seconds
        state = self.chats.get(chat, ChatState())
        question = since(question, state.first)
        long = len(question.text) > LONG_QUESTION
        asked = await asyncio.to_thread(views, question) if long else views(question)
        if self.reader.loaded is None and asked.texts:
            self._warm_up(app)
        loaded = self.reader.loaded or await self.reader.first_load(limits.seconds)
        if loaded is None or not loaded.recall.keys or not asked.texts:
            return ()
        if only_thanks(question) and (same := shown_again(loaded.recall, state.shown)):
            return same[: limits.top_k]
        vectors = await self._vectors(loaded, asked.texts, app, deadline)
        recall, floor = loaded.recall, floor_for(loaded.recall, limits, vectors)
        scores, goes_on = await self._judged(recall, asked, vectors)
        if limits.rerank:
            reorder = self.reranker.reorder
            scores = await reorder(recall, scores, floor, asked, app, deadline)
        chosen = select(
            recall,
            scores,
            floor=floor,
            top_k=limits.top_k,
            token_budget=limits.token_budget,
            shown=state.shown if goes_on else (),
        )
        first = state.first if goes_on else question.text
        self._remember(chat, ChatState(tuple(lesson.key for lesson in chosen), first))
        return chosen

    def _warm_up(self, app: Any) -> None:
        """Begin the engine's fingerprint while the lessons are still being read."""
        function = getattr(getattr(app, "state", None), "EMBEDDING_FUNCTION", None)
        if function is not None and self._warming is None:
            work = HostEmbedder(function).fingerprint()
            task = asyncio.get_running_loop().create_task(work)
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._warming = (function, task)

    async def _fingerprint(self, function: Any) -> Fingerprint:
        warm, self._warming = self._warming, None
        loop = asyncio.get_running_loop()
        if warm is not None and warm[0] is function and warm[1].get_loop() is loop:
            return await warm[1]
        return await HostEmbedder(function).fingerprint()

    async def _vectors(
        self, loaded: Loaded, texts: tuple[str, ...], app: Any, deadline: float
    ) -> Vectors | None:
        function = getattr(getattr(app, "state", None), "EMBEDDING_FUNCTION", None)
        if not loaded.recall.dimension or time.monotonic() < self.paused_until:
            return None
        try:
            if function is None:
                raise EmbedError("Open WebUI has no embedding engine: choose one in its settings")
            async with asyncio.timeout(max(0.05, 0.85 * (deadline - time.monotonic()))):
                vectors = await self._embed(loaded, texts, function)
        except TimeoutError:
            self._without("the embedding engine did not answer in time")
        except LessonsError as error:
            self._without(str(error))
        else:
            self.alerts.clear("embedding")
            return vectors
        return None

    def _without(self, reason: str) -> None:
        self.paused_until = time.monotonic() + PAUSE_SECONDS
        self.alerts.warn("embedding", f"{reason}; lessons are recalled by words alone meanwhile")

    async def _embed(self, loaded: Loaded, texts: tuple[str, ...], function: Any) -> Vectors:
        embedding = HostEmbedder(function).embed(texts, Purpose.QUERY)
        if self._trusted == (function, loaded.fingerprint):
            vectors = await embedding
        else:
            _, vectors = await asyncio.gather(self._check(function, loaded), embedding)
        if vectors.shape[1] != loaded.recall.dimension:
            self._trusted = None
            raise EmbeddingMismatch(
                f"the embedding engine gives {vectors.shape[1]} dimensions, the lessons have "
                f"{loaded.recall.dimension}: run `lessons reembed`"
            )
        return vectors

    async def _check(self, function: Any, loaded: Loaded) -> None:
        """Compare the engine's fingerprint with the lessons'; shared by waiting chats."""
        wanted = (function, loaded.fingerprint)
        if self._checking is None or self._checking[0] != wanted or self._checking[1].done():
            task = asyncio.get_running_loop().create_task(self._compare(function, loaded))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._checking = (wanted, task)
        await asyncio.shield(self._checking[1])

    async def _compare(self, function: Any, loaded: Loaded) -> None:
        try:
            async with asyncio.timeout(self.check_seconds):
                found = await self._fingerprint(function)
        except TimeoutError:
            raise EmbedError("the embedding engine did not answer in time") from None
        stored = loaded.fingerprint
        if stored is None or not stored.matches(found):
            raise EmbeddingMismatch(
                f"Open WebUI embeds with {found.name} ({found.dimension} dimensions), the lessons "
                f"with {stored.name if stored else 'nothing'} "
                f"({stored.dimension if stored else 0}): run `lessons reembed`"
            )
        self._trusted = (function, stored)
        self.paused_until = 0.0  # a model that only loads slowly need not be waited for longer

    async def _judged(self, recall: RecallIndex, asked: Asked, vectors: Vectors | None) -> Judged:
        if len(recall.keys) * len(asked.texts) <= SMALL_ENOUGH:
            return judge(recall, asked.texts, vectors, asked.follow_up)
        return await asyncio.to_thread(judge, recall, asked.texts, vectors, asked.follow_up)

    def _remember(self, chat: str, state: ChatState) -> None:
        if not chat or (chat not in self.chats and state == ChatState()):
            return
        self.chats[chat] = state
        self.chats.move_to_end(chat)
        if len(self.chats) > CHATS_KEPT:
            self.chats.popitem(last=False)


def shown_again(recall: RecallIndex, shown: Sequence[str]) -> tuple[Curated, ...]:
    """Return what the chat was shown last: thanks are no reason to change its prompt."""
    return tuple(recall.lesson(recall.places[key]) for key in shown if key in recall.places)


def floor_for(recall: RecallIndex, limits: Limits, vectors: Vectors | None) -> float:
    """Return the floor: the admin's, else the calibrated one of what the scores are made of."""
    if limits.floor is not None:
        return limits.floor
    return recall.lexical_floor if vectors is None else recall.floor
