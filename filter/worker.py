"""A bounded background queue on the event loop, with kept task references.

asyncio keeps only weak references to tasks: without ours a running one could be
collected and vanish without an error.
"""

from __future__ import annotations

import asyncio
import datetime
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from lessons_loop.filter.alerts import lessons_log

Result = TypeVar("Result")
Job = Callable[[], Awaitable[None]]
QUEUE_LIMIT = 100
PARALLEL_JOBS = 2
SEEN_LIMIT = 20_000


class Waiting(NamedTuple):
    """A queued job, and what to do where it is dropped."""

    job: Job
    dropped: Callable[[], None] | None


class Worker:
    """Runs at most `parallel` jobs at once; beyond `limit` waiting ones the oldest is dropped."""

    def __init__(self, limit: int = QUEUE_LIMIT, parallel: int = PARALLEL_JOBS) -> None:
        self.limit, self.parallel = limit, parallel
        self.waiting: deque[Waiting] = deque()
        self.running: set[asyncio.Task[None]] = set()
        self.beside: set[asyncio.Task[None]] = set()
        self.counts: Counter[str] = Counter()

    def submit(self, job: Job, dropped: Callable[[], None] | None = None) -> None:
        """Queue a job and return at once; must be called on the event loop.

        `dropped` is called where more than `limit` wait and this one has to go.
        """
        if len(self.waiting) >= self.limit:
            self._drop_oldest()
        self.waiting.append(Waiting(job, dropped))
        self._pump()

    def _drop_oldest(self) -> None:
        oldest = self.waiting.popleft()
        if not self.counts["overflow"]:
            lessons_log.warning(
                "more than %d answers wait to be learned from, the oldest have to stand back: "
                "distilling is too slow",
                self.limit,
            )
        self.counts["overflow"] += 1
        if oldest.dropped is not None:
            oldest.dropped()

    def room(self) -> int:
        """Return how many jobs may be queued before the queue is half full."""
        return max(0, self.limit // 2 - len(self.waiting))

    def spawn(self, job: Job) -> None:
        """Run a job now, beside the queue: it takes no place of a queued one."""
        self._start(job, self.beside)

    async def settle(self, seconds: float) -> int:
        """Wait for what is queued; return how many jobs were unfinished after `seconds`."""
        deadline = asyncio.get_running_loop().time() + seconds
        while tasks := self.running | self.beside:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return len(tasks) + len(self.waiting)
            await asyncio.wait(tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        return 0

    def _pump(self) -> None:
        self._forget_dead_loops()
        while self.waiting and len(self.running) < self.parallel:
            self._start(self.waiting.popleft().job, self.running)

    def _start(self, job: Job, tasks: set[asyncio.Task[None]]) -> None:
        task = asyncio.get_running_loop().create_task(self._guarded(job))
        tasks.add(task)
        task.add_done_callback(self._finished)

    async def _guarded(self, job: Job) -> None:
        try:
            await job()
        except asyncio.CancelledError:
            self.counts["cancelled"] += 1
            raise
        except Exception as error:  # a background job may never disturb the server
            self.counts["failed"] += 1
            self._warn_once(type(error).__name__)
            lessons_log.debug("background work failed", exc_info=True)

    def _warn_once(self, reason: str) -> None:
        if not self.counts[f"failed:{reason}"]:
            lessons_log.warning("background work failed: %s", reason)
        self.counts[f"failed:{reason}"] += 1

    def _finished(self, task: asyncio.Task[None]) -> None:
        self.running.discard(task)
        self.beside.discard(task)
        if not (task.get_loop().is_closed() or task.cancelled()):  # cancelled: the server ends
            self._pump()

    def _forget_dead_loops(self) -> None:
        self.running = {t for t in self.running if not t.get_loop().is_closed()}
        self.beside = {t for t in self.beside if not t.get_loop().is_closed()}


class Seen:
    """Remembers ids, the newest `limit` of them: one attempt per id."""

    def __init__(self, limit: int = SEEN_LIMIT) -> None:
        self.limit = limit
        self.ids: OrderedDict[str, None] = OrderedDict()

    def first(self, identity: str) -> bool:
        """Say whether the id is new, and remember it."""
        new = identity not in self.ids
        self.ids[identity] = None
        self.ids.move_to_end(identity)
        if len(self.ids) > self.limit:
            self.ids.popitem(last=False)
        return new


class DailyCaps:
    """Counts uses per day, in all and per user."""

    def __init__(self) -> None:
        self.day = ""
        self.total = 0
        self.users: Counter[str] = Counter()

    def take(self, user: str, cap: int, user_cap: int, day: str | None = None) -> bool:
        """Count one use and return True, unless one of the caps is reached."""
        today = day or datetime.datetime.now(datetime.UTC).date().isoformat()
        if today != self.day:
            self.day, self.total, self.users = today, 0, Counter()
        if self.total >= cap or self.users[user] >= user_cap:
            return False
        self.total += 1
        self.users[user] += 1
        return True


class Pause:
    """How long something that keeps failing is left alone: doubling, up to a limit."""

    def __init__(self, first: float = 5.0, longest: float = 15.0) -> None:
        self.first, self.longest = first, longest
        self.length, self.until = 0.0, 0.0

    def over(self) -> bool:
        """Say whether it may be tried again."""
        return time.monotonic() >= self.until

    def lengthen(self) -> None:
        """Begin the next pause, twice as long as the one before."""
        self.length = min(self.longest, 2 * self.length or self.first)
        self.until = time.monotonic() + self.length

    def end(self) -> None:
        """Note that it worked: the next pause is a short one again."""
        self.length, self.until = 0.0, 0.0


async def in_daemon_thread(work: Callable[[], Result]) -> Result:
    """Run blocking work in a thread that never holds up the server's exit."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        outcome: tuple[Result | None, BaseException | None]
        try:
            outcome = (work(), None)
        except Exception as error:
            outcome = (None, error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, name="lessons-loop", daemon=True).start()
    return await future
