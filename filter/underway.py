"""The answers this worker has noted as under way, written beside the event loop.

Notes are written in batches by one thread at a time: a locked register delays what is learned,
never a chat, and takes no thread of Open WebUI's.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from functools import partial

from lessons_loop.filter.alerts import Alerts
from lessons_loop.filter.answer import Exchange
from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.text import scrub, shorten
from lessons_loop.filter.unfinished import BEAT_SECONDS, Taken, Unfinished, UnfinishedAnswer
from lessons_loop.filter.worker import in_daemon_thread

FINISH_LIMIT = 40
NOTES_MOST = 1_000
"""Answers that wait to be noted at most: a disk that hangs must not fill the memory."""
NOTE_TROUBLE = "noting answers under way"


class Noted(Enum):
    """What came of noting an answer."""

    OURS = auto()
    BEFORE = auto()
    """Somebody had noted it, or a model was asked about it."""
    NOT = auto()
    """It cannot be noted, and is learned from without."""


MakeRow = Callable[[], UnfinishedAnswer]
PendingNote = tuple[MakeRow, asyncio.Future[Noted]]


class Underway:
    """Notes answers, says that this worker lives while it has some, and removes them."""

    def __init__(
        self, register: Unfinished, alerts: Alerts, beat_seconds: float = BEAT_SECONDS
    ) -> None:
        self.register, self.alerts, self.beat_seconds = register, alerts, beat_seconds
        self.ours: set[str] = set()
        """Messages noted by this worker and not through."""
        self._fresh: list[PendingNote] = []
        self._stood_back: set[str] = set()
        self._unclosed: set[str] = set()
        self._failed: set[str] = set()
        self._noting: asyncio.Task[None] | None = None
        self._signs: asyncio.Task[None] | None = None

    def note(self, make: MakeRow) -> asyncio.Future[Noted]:
        """Note an answer soon; `make` is called in a thread. On the event loop."""
        if len(self._fresh) >= NOTES_MOST:
            return self.unnoted()
        future: asyncio.Future[Noted] = asyncio.get_running_loop().create_future()
        self._fresh.append((make, future))
        if ended(self._noting):
            self._noting = asyncio.get_running_loop().create_task(self._note_fresh())
        return future

    def unnoted(self) -> asyncio.Future[Noted]:
        """Say of an answer that it cannot be noted."""
        future: asyncio.Future[Noted] = asyncio.get_running_loop().create_future()
        future.set_result(Noted.NOT)
        return future

    def owner_of(self, message: str) -> str:
        """Return who holds an answer: this worker, empty where it is not noted."""
        return self.register.owner if message in self.ours else ""

    def stand_back(self, message: str) -> None:
        """Leave an answer to whoever has room, with the next sign of life."""
        self._stood_back.add(message)

    async def end(self, message: str, *, answered: bool) -> None:
        """Remove an answer; later where the model could not be asked."""
        if answered:
            await self.close(message)
        else:
            self.close_later(message)

    async def close(self, message: str) -> None:
        """Remove an answer: it was learned from, or there is a reason not to."""
        if message in self.ours:
            try:
                await in_daemon_thread(partial(self.close_now, message))
            except RuntimeError:  # no thread to be had
                self.close_later(message)

    def close_now(self, message: str) -> None:
        """Do so in this thread; where it fails it is done with a later sign of life."""
        if message not in self.ours:
            return
        self._unclosed.add(message)
        if self._told(lambda: self.register.close([message])):
            self._unclosed.discard(message)
        self.ours.discard(message)

    def close_later(self, message: str) -> None:
        """Remove an answer one whole sign of life from now.

        What failed may have failed because the server ends, which closes its connections first:
        then the row has to stay.
        """
        if message in self.ours:
            self._failed.add(message)

    def still_ours(self, message: str) -> bool:
        """Say whether nobody else has taken an answer up; in a thread."""
        if message not in self.ours:
            return True
        try:
            return self.register.holds(message)
        except StoreError:  # as without a register
            return True

    async def take(self, plugin: str, most: int) -> Taken:
        """Take up answers of dead workers and those that stood back; raise StoreError."""
        taken = await in_daemon_thread(partial(self.register.take, plugin, most))
        self._keep({answer.message for answer in taken.answers})
        return taken

    async def _note_fresh(self) -> None:
        while self._fresh:
            notes, self._fresh = self._fresh, []
            outcomes = [("", Noted.NOT)] * len(notes)
            with suppress(RuntimeError):  # no thread to be had: nobody may wait for ever
                outcomes = await in_daemon_thread(partial(self._written, [m for m, _ in notes]))
            self._keep({message for message, noted in outcomes if noted is Noted.OURS})
            for (_, future), (_, noted) in zip(notes, outcomes, strict=True):
                if not future.done():
                    future.set_result(noted)

    def _written(self, makers: list[MakeRow]) -> list[tuple[str, Noted]]:
        try:
            rows = [make() for make in makers]
            mine = self.register.note(rows)
        except Exception as error:  # learned from all the same, as long as this worker lives
            self._warn(str(error) if isinstance(error, StoreError) else type(error).__name__)
            return [("", Noted.NOT)] * len(makers)
        self.alerts.clear(NOTE_TROUBLE)
        return [(row.message, Noted.OURS if row.message in mine else Noted.BEFORE) for row in rows]

    def _keep(self, messages: set[str]) -> None:
        self.ours |= messages
        if self.ours and ended(self._signs):
            self._signs = asyncio.get_running_loop().create_task(self._give_signs())

    async def _give_signs(self) -> None:
        """Give signs of life while there are answers, the first after a while."""
        while self.ours or self._unclosed:
            await asyncio.sleep(self.beat_seconds)
            back, self._stood_back = self._stood_back & self.ours, set()
            self.ours -= back
            through = set(self._unclosed)
            self._unclosed, self._failed = self._unclosed | self._failed, set()
            try:
                await in_daemon_thread(partial(self._sign, back, through))
            except RuntimeError:  # no thread to be had: the next one may be
                self._later(back)

    def _sign(self, back: set[str], through: set[str]) -> None:
        if self._told(lambda: self.register.give_sign(back, through)):
            self._unclosed -= through
            self.ours -= through
        else:
            self._later(back)

    def _later(self, back: set[str]) -> None:
        self._stood_back |= back
        self.ours |= back

    def _told(self, write: Callable[[], None]) -> bool:
        try:
            write()
        except StoreError as error:
            self._warn(str(error))
            return False
        self.alerts.clear(NOTE_TROUBLE)
        return True

    def _warn(self, reason: str) -> None:
        self.alerts.warn(NOTE_TROUBLE, f"{reason}; what a killed worker had begun may be lost")


def ended(task: asyncio.Task[None] | None) -> bool:
    """Say whether a task does not run (any more)."""
    return task is None or task.done() or task.get_loop().is_closed()


def row_of(
    exchange: Exchange, plugin: str, domain: str, ref: Callable[[str], str]
) -> UnfinishedAnswer:
    """Return what is noted of an exchange; `ref` may read the salt."""
    return UnfinishedAnswer(
        message=exchange.message,
        chat=exchange.chat,
        plugin=plugin,
        domain=domain,
        finish=shorten(scrub(exchange.finish_reason or ""), FINISH_LIMIT),
        recalled=json.dumps({name: list(keys) for name, keys in exchange.recalled.items()}),
        shown=json.dumps(list(exchange.shown)),
        user_ref=ref(exchange.user),
        chat_ref=ref(exchange.chat),
        at=exchange.at,
    )
