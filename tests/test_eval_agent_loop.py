"""The tools' loop: what a blocked one leaves behind is ended, not dropped."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from lessons_loop.eval.agent.loop_thread import ALIVE_SECONDS, TimedLoop

BLOCKED_SECONDS = ALIVE_SECONDS + 1.5


async def quick() -> str:
    await asyncio.sleep(0)
    return "done"


async def blocks() -> None:
    time.sleep(BLOCKED_SECONDS)


def threads() -> set[int | None]:
    return {one.ident for one in threading.enumerate() if one.name == "lessons-tools"}


def until_ended(before: set[int | None]) -> None:
    deadline = time.monotonic() + 30
    while threads() - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not threads() - before


def test_waiting_work_of_a_blocked_loop_leaves_no_coroutine() -> None:
    before = threads()
    loop = TimedLoop(0.3)
    with ThreadPoolExecutor(4) as pool:
        stuck = pool.submit(loop.run, blocks)
        time.sleep(0.1)
        waiting = [pool.submit(loop.run, quick, 20.0) for _ in range(3)]
        assert [one.result(30) for one in waiting] == ["done"] * 3
        assert stuck.result(30) == {"error": "no answer within 0.3 s"}
    del loop, pool, stuck, waiting
    gc.collect()
    until_ended(before)
    gc.collect()  # a coroutine nobody awaited would be warned of here


def test_work_under_way_ends_with_its_owner() -> None:
    before, ended = threads(), threading.Event()
    loop = TimedLoop(0.2)

    async def slow() -> None:
        try:
            await asyncio.sleep(600)
        finally:
            ended.set()

    assert loop.run(slow) == {"error": "no answer within 0.2 s"}
    del loop
    gc.collect()
    until_ended(before)
    assert ended.is_set()
