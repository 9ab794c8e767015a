"""What goes wrong while people chat: Chroma, nginx and a worker die, the plugin is replaced.

Each fault gives how long it lasted and how long the way back took. Chats go on all the time; who
failed meanwhile is read from the crowd afterwards.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from lessons_loop.deploy.bench.load_stack import WORKERS, LoadStack
from lessons_loop.deploy.bench.load_users import Crowd
from lessons_loop.deploy.processes import StartError
from lessons_loop.deploy.webui.plugin_file import PLUGIN_ID, plugin_source
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.inject import reference

REPLACED = "plugin replaced"
PATIENCE = 300.0
"""Seconds after which a way back is given up."""
ASIDE = 1_000_000
"""Number of whoever asks on behalf of the bench; never in a comparison."""


class Fault(NamedTuple):
    """One fault and the way back."""

    name: str
    began: float
    ended: float
    recall: float = 0.0
    """Seconds from the end of the fault until every worker recalls a lesson made after it."""
    staging: float = 0.0
    """Seconds from there until what had waited has arrived in staging."""
    pid: int = 0
    """The worker that was killed."""


class Troubles:
    """Makes trouble for a stack under load."""

    def __init__(self, stack: LoadStack, crowd: Crowd) -> None:
        self.stack, self.crowd = stack, crowd
        self.spool = stack.settings.data / "lessons" / "spool"

    async def chroma_killed(self, away: float) -> Fault:
        """Kill Chroma, start it again after `away` seconds."""
        began = time.monotonic()
        await asyncio.to_thread(self.stack.running["chroma"].kill)
        await asyncio.sleep(away)
        self.stack.begin("chroma")
        await asyncio.to_thread(self.stack.wait_for, "chroma")
        back = time.monotonic()
        waiting = {file.name for file in self.spool.glob("*.json")}
        recall, staging = await asyncio.gather(self._recalled_anew(), self._arrived(waiting))
        return Fault("Chroma killed", began, time.monotonic(), recall - back, staging - back)

    async def proxy_restarted(self, away: float) -> Fault:
        """Stop nginx, start it again."""
        began = time.monotonic()
        await asyncio.to_thread(self.stack.running["proxy"].stop)
        await asyncio.sleep(away)
        self.stack.begin("proxy")
        await asyncio.to_thread(self.stack.wait_for, "proxy")
        back = time.monotonic()
        waiting = {file.name for file in self.spool.glob("*.json")}
        recall, staging = await asyncio.gather(self._recalled_anew(), self._arrived(waiting))
        return Fault("nginx restarted", began, time.monotonic(), recall - back, staging - back)

    async def plugin_replaced(self) -> Fault:
        """Store another version of the plugin."""
        began = time.monotonic()
        source = f"{plugin_source()}\n# another version\n"
        await asyncio.to_thread(self.stack.admin.store_function, PLUGIN_ID, "Lessons", source)
        stored = time.monotonic()
        recall = await self.recalled_by_all(None)
        return Fault(REPLACED, began, time.monotonic(), recall - stored)

    async def worker_killed(self) -> Fault:
        """Kill one worker; uvicorn starts another, which loads everything for 20 s and more."""
        pid = self.stack.worker_pids()[0]
        began = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        clients = await until(lambda: asyncio.to_thread(self._whole, pid))
        recall = await self.recalled_by_all(None)
        return Fault("worker killed", began, time.monotonic(), recall - clients, pid=pid)

    def _whole(self, gone: int) -> bool:
        """Say whether all workers answer, a new one among them."""
        try:
            return gone not in self.stack.each_worker(seconds=0)
        except StartError:
            return False

    async def _recalled_anew(self) -> float:
        """Make a lesson; return when all workers have recalled it."""
        known = len(self.stack.words)
        await until(lambda: asyncio.to_thread(self._taught, known))
        return await self.recalled_by_all(reference(self.stack.words[-1].lesson().key))

    def _taught(self, known: int) -> bool:
        """Make one more lesson unless that worked already; False where the store is not ready."""
        if len(self.stack.words) == known:
            try:
                self.stack.teach(1)
            except LessonsError:
                return False
        return True

    async def recalled_by_all(self, wanted: str | None) -> float:
        """Ask about the newest lesson until all workers recalled it; return when they had."""
        began, last = time.monotonic(), self.stack.words[-1].lesson()
        name = wanted or reference(last.key)
        question = [{"role": "user", "content": f"What about {last.trigger}?"}]

        async def told() -> bool:
            await asyncio.gather(*(self.crowd.ask(ASIDE, 0, True, question) for _ in range(3)))
            return len(self._recalling(name, began)) >= WORKERS

        return await until(told)

    def _recalling(self, name: str, began: float) -> set[int]:
        """Return the workers that recalled a lesson since then."""
        return {a.worker for a in self.crowd.asked if a.began >= began and name in a.lessons}

    async def _arrived(self, waiting: Iterable[str]) -> float:
        """Return when nothing of what waited in the spool is left there."""
        names = set(waiting)

        async def gone() -> bool:
            return not names & {file.name for file in self.spool.glob("*.json")}

        return await until(gone)


async def until(holds: Callable[[], Awaitable[bool]], seconds: float = PATIENCE) -> float:
    """Return when something began to hold; raise StartError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not await holds():
        if time.monotonic() > deadline:
            raise StartError(f"still not back after {seconds:.0f} s")
        await asyncio.sleep(0.3)
    return time.monotonic()
