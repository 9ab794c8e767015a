"""Learning from finished answers, in the background: usage events and candidates.

The hook itself only checks flags and queues; transcript, model call, evidence
and the store are the background job's.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from lessons_loop.filter.alerts import Alerts, lessons_log
from lessons_loop.filter.answer import Exchange, private, read_and_check, refusal, utc_stamp
from lessons_loop.filter.attempts import Attempts, attempts_file
from lessons_loop.filter.distill import Origin, distill
from lessons_loop.filter.errors import ModelError, StoreError, StoreUnreachable
from lessons_loop.filter.events import Usage, tally_of
from lessons_loop.filter.host import ask_host_model, host_model_id
from lessons_loop.filter.llm import ChatReply, HttpModel
from lessons_loop.filter.models import Candidate
from lessons_loop.filter.seal import sealed
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import ensure_salt
from lessons_loop.filter.text import digest, scrub, shorten, user_reference
from lessons_loop.filter.tools_end import how_tools_ended
from lessons_loop.filter.underway import Noted, Underway, row_of
from lessons_loop.filter.unfinished import Unfinished
from lessons_loop.filter.valves import LessonsValves
from lessons_loop.filter.worker import Pause, Seen, Worker, in_daemon_thread

DISTILL_SECONDS_LIMIT = 600
"""Longest time one distillation may hold its place in the queue, whatever the valve says."""
DRAIN_MOST = 1_000
"""Records moved at once: the rest waits for the timer, so that chats get their turn."""
TALLY_SECONDS = 600.0
"""Shortest time between two tallies of one process."""
NOTE_LIMIT = 200


class Learner:
    """Turns exchanges into spooled events and candidates."""

    def __init__(self, spool: Spool, worker: Worker, alerts: Alerts) -> None:
        self.spool, self.worker, self.alerts = spool, worker, alerts
        self.seen = Seen()
        register = attempts_file(spool.paths.root)
        self.attempts = Attempts(register, alerts)
        self.underway = Underway(Unfinished(register, secrets.token_hex(8)), alerts)
        self.counts: Counter[str] = Counter()
        self._salt: bytes | None = None
        self._draining = False
        self._pause = Pause()
        self.domain = ""
        self._told: Counter[str] = Counter()
        self._next_tally = time.monotonic() + TALLY_SECONDS

    def offer(
        self, exchange: Exchange, valves: LessonsValves, *, contribute: bool, plugin: str = ""
    ) -> None:
        """Queue what this exchange gives; cheap, called on the event loop.

        With the `plugin`'s id an answer of a saved chat is noted as under way meanwhile.
        """
        self.domain = next(iter(valves.domain_names()), "")
        if reason := private(exchange, valves, contribute=contribute):
            self.count(f"skipped:{reason}", valves)
            return
        if exchange.recalled and self.seen.first(f"used {exchange.message}"):
            self.worker.submit(lambda: self.note_usage(exchange))
        if reason := refusal(exchange, valves):  # no attempt: a broken answer may be continued
            self.count(f"skipped:{reason}", valves)
        elif not self.seen.first(exchange.message):
            self.count("skipped:seen", valves)
        else:
            self._queue(exchange, valves, plugin)

    def _queue(self, exchange: Exchange, valves: LessonsValves, plugin: str) -> None:
        noted = self._note(exchange, valves, plugin)

        message = exchange.message

        def stand_back(outcome: Noted) -> None:
            if outcome is Noted.OURS:
                self.underway.stand_back(message)
            elif outcome is Noted.NOT:
                self.count("lost:queue-full", valves)

        def dropped() -> None:
            noted.add_done_callback(lambda done: stand_back(done.result()))

        self.worker.submit(lambda: self._learn_noted(exchange, valves, noted), dropped)

    def _note(
        self, exchange: Exchange, valves: LessonsValves, plugin: str
    ) -> asyncio.Future[Noted]:
        """Note an answer that can be read again: of a saved chat, its lessons all known by key."""
        if not (plugin and exchange.chat and len(exchange.shown) == len(exchange.injected)):
            return self.underway.unnoted()
        domain = valves.domain_names()[0]
        named = exchange._replace(messages=(), app=None)  # it may wait long
        return self.underway.note(lambda: row_of(named, plugin, domain, self.reference))

    async def _learn_noted(
        self, exchange: Exchange, valves: LessonsValves, noted: asyncio.Future[Noted]
    ) -> None:
        if await noted is Noted.BEFORE:
            self.count("skipped:seen", valves)
        else:
            await self.learn(exchange, valves)

    async def learn(self, exchange: Exchange, valves: LessonsValves) -> None:
        """Distill an answer; it is under way no longer, unless the server ends meanwhile."""
        try:
            answered = await self._distill(exchange, valves)
        except Exception:
            self.underway.close_later(exchange.message)
            raise
        await self.underway.end(exchange.message, answered=answered)

    async def drain(self) -> None:
        """Move the spool's oldest records into staging unless that is under way.

        Warns once when it cannot; a server that is down is left alone for a while.
        """
        if self._draining or not self._pause.over():
            return
        self._draining = True
        try:
            await self._append_tally()
            if await in_daemon_thread(lambda: self.spool.drained(DRAIN_MOST)):
                self.alerts.clear("staging")
                self._pause.end()
        except StoreError as error:
            if isinstance(error, StoreUnreachable):
                self._pause.lengthen()
            self.alerts.warn("staging", f"{error}; new lessons wait in {self.spool.paths.spool}")
        finally:
            self._draining = False

    async def _append_tally(self) -> None:
        """Spool what was counted since the last tally, once its time has come."""
        counted = self.counts.copy()
        fresh = counted - self._told
        del fresh["skipped:off"]  # learning is switched off: every answer counts so
        if not (fresh and self.domain and time.monotonic() >= self._next_tally):
            return
        tally = tally_of(secrets.token_hex(16), fresh, utc_stamp())
        told, self._told = self._told, counted  # before waiting: a cancelled one is not repeated
        try:
            await in_daemon_thread(lambda: self.spool.append_tally(self.domain, tally))
        except StoreError:  # a full spool or disk: draining is what makes room
            self._told = told
            return
        self._next_tally = time.monotonic() + TALLY_SECONDS

    async def note_usage(self, exchange: Exchange) -> None:
        """Spool which lessons an answer was given."""
        await asyncio.to_thread(self._spooled, lambda: self._append_usage(exchange))

    def _append_usage(self, exchange: Exchange) -> None:
        finish = exchange.finish_reason or ""
        tools = how_tools_ended(exchange.messages, whole=bool(finish))
        for domain, keys in exchange.recalled.items():
            usage = Usage(
                keys=tuple(keys),
                message_ref=digest("message", exchange.message),
                user_ref=self.reference(exchange.user),
                chat_ref=self.reference(exchange.chat),
                at=exchange.at,
                model=shorten(scrub(exchange.chat_model), NOTE_LIMIT),
                outcome=shorten(scrub(finish), NOTE_LIMIT) or "broken",
                tools=tools,
            )
            self.spool.append_usage(domain, usage)

    async def _distill(self, exchange: Exchange, valves: LessonsValves) -> bool:
        """Return False where the model could not be asked."""
        turns, reason = await asyncio.to_thread(read_and_check, exchange, valves)
        caps = (valves.distill_daily_cap, valves.distill_user_daily_cap)
        who = (exchange.message, exchange.user)
        owner = self.underway.owner_of(exchange.message)
        if reason := reason or await self.attempts.refused(*who, *caps, owner):
            self.count("lost:given-up" if reason == "given-up" else f"skipped:{reason}", valves)
            return True
        try:
            model = await model_name(exchange, valves)
        except ModelError as error:
            self.count("endpoint-failed", valves)
            self.alerts.warn("distilling", str(error))
            return False
        origin = await asyncio.to_thread(self._origin, exchange, valves, model)
        if origin is None:
            return True
        outcome = await distill(
            turns,
            origin,
            self._asker(exchange, valves, model),
            max_lessons=valves.distill_max_lessons,
            injected=exchange.injected,
        )
        for name, number in outcome.counts.items():
            self.count(name, valves, number)
        if outcome.warning:
            self.alerts.warn("distilling", outcome.warning)
        else:
            self.alerts.clear("distilling")
        if outcome.candidates:
            await asyncio.to_thread(
                self._spooled, lambda: self._append_candidates(exchange, outcome.candidates)
            )
            self.worker.spawn(self.drain)
        return "endpoint-failed" not in outcome.counts

    def _append_candidates(self, exchange: Exchange, found: Sequence[Candidate]) -> None:
        """Append unless another worker took the answer up meanwhile, or it was forgotten."""
        if not self.underway.still_ours(exchange.message):
            self.counts["lost:taken"] += 1
            return
        self.spool.append_candidates(sealed(self._key(), found))
        self.underway.close_now(exchange.message)  # at once: a kill here would ask twice

    def _origin(self, exchange: Exchange, valves: LessonsValves, model: str) -> Origin | None:
        try:
            chat, user = self.reference(exchange.chat), self.reference(exchange.user)
        except StoreError as error:
            self._lose(error)
            return None
        return Origin(
            domain=valves.domain_names()[0],
            message_ref=digest("message", exchange.message),
            chat_ref=chat,
            user_ref=user,
            at=exchange.at,
            model=model,
        )

    def _asker(
        self, exchange: Exchange, valves: LessonsValves, name: str
    ) -> Callable[[list[dict[str, str]]], Awaitable[ChatReply]]:
        seconds = float(min(max(1, valves.distill_timeout_s), DISTILL_SECONDS_LIMIT))

        async def ask(messages: list[dict[str, str]]) -> ChatReply:
            try:
                async with asyncio.timeout(seconds + 2.0):
                    if valves.distill_url.strip():
                        model = http_model(valves, name, seconds)
                        return await in_daemon_thread(lambda: model.ask(messages))
                    return await ask_host_model(exchange.app, name, exchange.user, messages)
            except TimeoutError:
                raise ModelError(
                    f"model {name} gave no answer in {seconds:.0f} s: see the valve "
                    "`distill_timeout_s`"
                ) from None

        return ask

    def reference(self, identity: str) -> str:
        """Return what stands for a user or a chat in rows; may read the salt."""
        return user_reference(self._key(), identity) if identity else ""

    def _key(self) -> bytes:
        if self._salt is None:
            self._salt = ensure_salt(self.spool.paths)
        return self._salt

    def _spooled(self, append: Callable[[], None]) -> None:
        try:
            append()
            self.alerts.clear("the spool")
        except StoreError as error:
            self._lose(error)

    def _lose(self, error: StoreError) -> None:
        self.counts["lost:spool"] += 1
        self.alerts.warn("the spool", f"{error}; nothing is learned meanwhile")

    def count(self, name: str, valves: LessonsValves, number: int = 1) -> None:
        """Count what became of an answer."""
        self.counts[name] += number
        if valves.debug:
            lessons_log.info("distill: %s", name)


async def model_name(exchange: Exchange, valves: LessonsValves) -> str:
    """Return which model distills this exchange; raise ModelError."""
    chosen = valves.distill_model.strip()
    if valves.distill_url.strip():
        return chosen or exchange.chat_model
    return await host_model_id(exchange.app, chosen, exchange.chat_model)


def http_model(valves: LessonsValves, name: str, seconds: float) -> HttpModel:
    """Return the client of the configured endpoint."""
    key = valves.distill_api_key or os.environ.get("LESSONS_LLM_API_KEY", "")
    return HttpModel(valves.distill_url.strip(), name, key, seconds)
