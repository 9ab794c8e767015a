"""One event loop in a thread of its own, as a server has it: sync work runs one by one there.

Covered: work that never ends (given up after its limit; a loop it blocks is left behind and
replaced, and what waited for it begins anew).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

POLL_SECONDS = 0.2
ALIVE_SECONDS = 1.0
"""A loop that does not take a call within it is blocked."""
Work = Callable[[], Awaitable[Any]]


class TimedLoop:
    """Runs awaitables on one loop, each with a time limit; for several threads."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._loop = _fresh_loop(self)

    def run(self, work: Work, seconds: float | None = None) -> Any:
        """Return what the work returns; {"error": …} where its time is over.

        Raises what the work raises. The limit counts from the work's own beginning.
        """
        limit = self.seconds if seconds is None else seconds
        while True:
            loop, started = self._loop, threading.Event()
            future = asyncio.run_coroutine_threadsafe(_begun(work, started), loop)
            if not self._waited_for(started, loop):
                future.cancel()
                continue
            try:
                return future.result(limit)
            except concurrent.futures.TimeoutError:
                if future.done():  # the work's own error
                    raise
                future.cancel()
                self._replace_blocked(loop)
                return {"error": f"no answer within {limit:g} s"}

    def _waited_for(self, started: threading.Event, loop: asyncio.AbstractEventLoop) -> bool:
        """Wait until the work began; return False where its loop was given up meanwhile."""
        while not started.wait(POLL_SECONDS):
            if loop is not self._loop:
                return False
        return True

    def _replace_blocked(self, loop: asyncio.AbstractEventLoop) -> None:
        alive = threading.Event()
        loop.call_soon_threadsafe(alive.set)
        if alive.wait(ALIVE_SECONDS):
            return
        with self._lock:
            if self._loop is loop:
                self._loop = _fresh_loop(self)
        loop.call_soon_threadsafe(loop.stop)


async def _begun(work: Work, started: threading.Event) -> Any:
    started.set()
    return await work()


def _fresh_loop(owner: TimedLoop) -> asyncio.AbstractEventLoop:
    """Start a loop in a daemon thread; it ends when its owner is gone."""
    loop = asyncio.new_event_loop()

    def serve() -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        loop.run_until_complete(_settled())
        loop.close()

    threading.Thread(target=serve, name="lessons-tools", daemon=True).start()
    weakref.finalize(owner, _stop, loop).atexit = False
    return loop


async def _settled() -> None:
    """Let begin what was asked for, and end it: a coroutine nobody awaits is warned of."""
    await asyncio.sleep(0)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=ALIVE_SECONDS)


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(loop.stop)
