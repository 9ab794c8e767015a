"""Taking up answers that another worker left unfinished: read again, checked again, learned from.

Everything that may have changed meanwhile is asked anew: the chat, the user's wish, the valves,
the lessons. What cannot be told for certain is not learned from, and counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lessons_loop.filter.alerts import lessons_log
from lessons_loop.filter.answer import Exchange, private, refusal
from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.host import AnswerSource, HostAnswers, StoredAnswer
from lessons_loop.filter.learner import Learner
from lessons_loop.filter.reader import CuratedReader
from lessons_loop.filter.unfinished import UnfinishedAnswer
from lessons_loop.filter.valves import LessonsUserValves, LessonsValves

RESUMED_MOST = 20
"""Answers taken up at one look: the other workers are to have some, too."""
RESUME_TROUBLE = "taking up unfinished answers"
READ_TROUBLE = "reading unfinished answers"
WAITS = "waits"


class Resumption:
    """Takes up unfinished answers for one learner."""

    def __init__(
        self,
        learner: Learner,
        reader: CuratedReader,
        fits: Callable[[LessonsValves], bool],
        source: AnswerSource | None = None,
    ) -> None:
        self.learner, self.reader, self.fits = learner, reader, fits
        self.source: AnswerSource = source or HostAnswers()

    async def take_up(self, plugin: str, app: Any) -> None:
        """Queue what others left, as far as there is room; warns once when it cannot."""
        room = min(RESUMED_MOST, self.learner.worker.room())
        if not (plugin and app and room and self.reader.loaded):
            return
        alerts = self.learner.alerts
        try:
            taken = await self.learner.underway.take(plugin, room)
        except StoreError as error:
            alerts.warn(RESUME_TROUBLE, f"{error}; answers of dead workers wait")
            return
        alerts.clear(RESUME_TROUBLE)
        self.learner.counts.update(taken.counts)
        for answer in taken.answers:
            self._queue(answer, app)

    def _queue(self, answer: UnfinishedAnswer, app: Any) -> None:
        self.learner.worker.submit(
            lambda: self._resume(answer, app),
            lambda: self.learner.underway.stand_back(answer.message),
        )

    async def _resume(self, answer: UnfinishedAnswer, app: Any) -> None:
        try:
            found = await self._read_again(answer, app)
        except Exception as error:  # another Open WebUI, its database in trouble
            lessons_log.debug("%s failed", RESUME_TROUBLE, exc_info=True)
            self.learner.alerts.warn(
                READ_TROUBLE, f"{RESUME_TROUBLE} failed: {type(error).__name__}"
            )
            self.learner.counts["lost:unreadable"] += 1
            self.learner.underway.close_later(answer.message)
            return
        if found == WAITS:
            self.learner.underway.stand_back(answer.message)
            return
        self.learner.alerts.clear(READ_TROUBLE)
        if isinstance(found, str):
            self.learner.counts[found] += 1
            await self.learner.underway.close(answer.message)
            return
        exchange, valves = found
        self.learner.count("resumed", valves)
        if exchange.recalled:  # a repeat has the same id; beside, that it hinders no learning
            self.learner.worker.spawn(lambda: self.learner.note_usage(exchange))
        await self.learner.learn(exchange, valves)

    async def _read_again(
        self, answer: UnfinishedAnswer, app: Any
    ) -> tuple[Exchange, LessonsValves] | str:
        """Return what to learn from and the valves of today; else what to count, or WAITS."""
        texts = self._texts(answer.keys_shown())
        if texts is None and not self.reader.complete:
            return WAITS
        stored = await self.source.valves(answer.plugin)
        if stored is None:
            return "skipped:off"
        valves = LessonsValves.model_validate(dict(stored))
        if not self.fits(valves) or answer.domain not in valves.domain_names()[:1]:
            return "lost:other-store"
        found = await self.source.answer(answer.chat, answer.message)
        if found is None:
            return "lost:deleted"
        if not self._same_people(answer, found):
            return "lost:other-user"
        if texts is None:
            return "lost:lessons-gone"
        exchange = exchange_of(answer, found, texts, app)
        own = LessonsUserValves.model_validate(
            dict(await self.source.own_valves(answer.plugin, found.user))
        )
        chosen = own.contribute and own.use_lessons
        reason = private(exchange, valves, contribute=chosen) or refusal(exchange, valves)
        return f"skipped:{reason}" if reason else (exchange, valves)

    def _same_people(self, answer: UnfinishedAnswer, found: StoredAnswer) -> bool:
        """Say whether the chat's owner is who was answered: who else may write in it is unknown."""
        return self.learner.reference(found.user) == answer.user_ref

    def _texts(self, keys: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the lessons' texts, None where one is not in the shelf any more."""
        loaded = self.reader.loaded
        places = [loaded.recall.places.get(key) for key in keys] if loaded else [None]
        if loaded is None or None in places:
            return None
        return tuple(loaded.recall.lesson(p).lesson.text for p in places if p is not None)


def exchange_of(
    answer: UnfinishedAnswer, found: StoredAnswer, texts: tuple[str, ...], app: Any
) -> Exchange:
    """Return the exchange as its outlet saw it."""
    return Exchange(
        messages=found.messages,
        chat=answer.chat,
        message=answer.message,
        user=found.user,
        chat_model=found.model,
        finish_reason=answer.finish or None,
        recalled=answer.keys_by_domain(),
        injected=texts,
        shown=answer.keys_shown(),
        at=answer.at,
        internal=False,
        app=app,
    )
