"""The background queue: nothing vanishes, nothing piles up."""

from __future__ import annotations

import asyncio
import gc
import logging

from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.worker import DailyCaps, Seen, Worker


def test_all_work_finishes_under_collection():  # T-25
    done = []

    async def scene():
        worker = Worker(limit=300)

        async def job(number):
            await asyncio.sleep(0.01)
            done.append(number)

        for number in range(200):
            worker.submit(lambda n=number: job(n))
        for _ in range(20):
            gc.collect()
            await asyncio.sleep(0)
        assert await worker.settle(60) == 0

    asyncio.run(scene())
    assert sorted(done) == list(range(200))


def test_few_jobs_run_at_once():
    high = []

    async def scene():
        worker = Worker(parallel=2)

        async def job():
            high.append(len(worker.running))
            await asyncio.sleep(0)

        for _ in range(20):
            worker.submit(job)
        await worker.settle(60)

    asyncio.run(scene())
    assert len(high) == 20 and max(high) <= 2


def test_overflow_drops_the_oldest_and_counts():  # T-25
    done = []

    async def scene():
        worker = Worker(limit=3, parallel=1)
        gate = asyncio.Event()

        async def blocker():
            await gate.wait()

        async def job(number):
            done.append(number)

        worker.submit(blocker)
        for number in range(5):
            worker.submit(lambda n=number: job(n))
        gate.set()
        await worker.settle(60)
        assert worker.counts["overflow"] == 2

    asyncio.run(scene())
    assert done == [2, 3, 4]


def test_failing_job_is_counted_and_the_next_runs(caplog):
    done = []

    async def scene():
        worker = Worker(parallel=1)

        async def bad():
            raise RuntimeError("text of a chat")

        async def good():
            done.append(1)

        worker.submit(bad)
        worker.submit(good)
        await worker.settle(60)
        assert worker.counts["failed"] == 1

    with caplog.at_level(logging.WARNING):
        asyncio.run(scene())
    assert done == [1] and "RuntimeError" in caplog.text and "text of a chat" not in caplog.text


def test_settling_is_bounded():
    async def scene():
        worker = Worker(parallel=1)

        async def forever():
            await asyncio.sleep(3600)

        worker.submit(forever)
        worker.submit(forever)
        assert await worker.settle(0.1) == 2

    asyncio.run(scene())


def test_work_of_a_closed_loop_blocks_nobody():
    worker = Worker(parallel=1)
    done = []

    async def forever():
        await asyncio.sleep(3600)

    async def quick():
        done.append(1)

    async def first():
        worker.submit(forever)

    async def second():
        worker.submit(quick)
        await worker.settle(60)

    asyncio.run(first())
    asyncio.run(second())
    assert done == [1]


@given(st.lists(st.text(max_size=2)))
def test_each_id_is_first_once(ids):  # T-24
    seen = Seen()
    firsts = [identity for identity in ids if seen.first(identity)]
    assert firsts == list(dict.fromkeys(ids))


def test_seen_ids_are_bounded():
    seen = Seen(limit=2)
    for identity in ("a", "b", "c"):
        seen.first(identity)
    assert list(seen.ids) == ["b", "c"]


def test_caps_hold_per_day_and_user():
    caps = DailyCaps()
    taken = [caps.take(user, 3, 2, day="2026-11-29") for user in ("a", "a", "a", "b", "b")]
    assert taken == [True, True, False, True, False]
    assert caps.take("a", 3, 2, day="2026-11-30")
    assert not caps.take("a", 0, 2, day="2026-11-30")


def test_work_beside_the_queue_takes_no_place_in_it():
    done = []

    async def scene():
        worker = Worker(parallel=1)

        async def forever():
            await asyncio.sleep(3600)

        async def quick():
            done.append(1)

        for _ in range(3):
            worker.spawn(forever)
        worker.submit(quick)
        assert await worker.settle(0.2) == 3

    asyncio.run(scene())
    assert done == [1]


def test_overflow_is_told_once(caplog):  # T-25
    async def scene():
        worker = Worker(limit=1, parallel=1)

        async def nothing():
            await asyncio.sleep(0)

        for _ in range(9):
            worker.submit(nothing)
        await worker.settle(60)

    with caplog.at_level(logging.WARNING):
        asyncio.run(scene())
    assert len(caplog.records) == 1 and "distilling is too slow" in caplog.text
