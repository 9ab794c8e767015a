"""A filter in a chat, called as Open WebUI calls it, with a server as its store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from lessons_loop.filter.inject import BLOCK_OPEN
from lessons_loop.filter.lessons_filter import Filter, tick
from support.gate import HashEmbedder
from support.outlet import outlet_body
from support.patient import PATIENT_MS
from support.shelf import app_with

EMBEDDER = HashEmbedder(256)
ASKED = "operating hours of the machine with serial SN-4711?"
Answer = TypeVar("Answer")


class Request:
    """What a hook gets as `__request__`, as far as we read it."""

    def __init__(self, app: Any) -> None:
        self.app = app


class Chat:
    """A filter in a chat; ended by `scene`."""

    def __init__(self, store: object, **valves: object) -> None:
        self.filter = Filter()
        self.set(store=str(store), **valves)
        self.request = Request(app_with(EMBEDDER))
        self.user: dict[str, Any] = {"id": "user-1", "valves": Filter.UserValves()}
        self.metadata = {"chat_id": "chat-1"}

    def set(self, **valves: object) -> None:
        """Change valves."""
        usual = {"domains": "sql", "recall_timeout_ms": PATIENT_MS}  # a busy machine misses 1.5 s
        kept = usual | (self.filter.valves.model_dump(exclude_unset=True))
        self.filter.valves = Filter.Valves(**(kept | valves))

    async def ask(self, text: str = ASKED) -> list[str]:
        """Ask one question; return the blocks of lessons the model would see."""
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
        self.metadata = {"chat_id": "chat-1"}
        found = await self.filter.inlet(
            body=body, __user__=self.user, __metadata__=self.metadata, __request__=self.request
        )
        return [m["content"] for m in found["messages"] if BLOCK_OPEN in str(m["content"])]

    async def finish(self, **fields: Any) -> None:
        """Finish the exchange and wait for what follows in the background."""
        await self.filter.outlet(
            body=outlet_body(**fields), __user__=self.user, __metadata__=self.metadata
        )
        assert await self.filter.worker.settle(120) == 0

    async def tick(self) -> None:
        """Let the regular work happen now."""
        await tick(self.filter)

    async def close(self) -> None:
        """End its timer and connections."""
        await close_filter(self.filter)


async def close_filter(found: Any) -> None:
    """End a filter's timer and connections, of whatever release it is."""
    if found.timer:
        found.timer.cancel()
    await found.worker.settle(120)
    if found.backend:
        await found.backend.close()


def scene(chat: Chat, play: Callable[[Chat], Awaitable[Answer]]) -> Answer:
    """Run `play(chat)`, then close what the filter holds."""

    async def run() -> Answer:
        try:
            return await play(chat)
        finally:
            await chat.close()

    return asyncio.run(run())
