"""Notes of answers under way: bounded while the disk hangs, one warning per trouble."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from contextlib import contextmanager

from lessons_loop.filter.alerts import Alerts
from lessons_loop.filter.underway import NOTES_MOST, Noted, Underway
from lessons_loop.filter.unfinished import Unfinished, UnfinishedAnswer


def row(message):
    return UnfinishedAnswer(message, "c", "p", "sql", "stop", "{}", "[]", "u", "r", "")


@contextmanager
def no_threads():
    """Ask for stacks no machine has: starting a thread fails as with too many of them."""
    threading.stack_size(1 << 47)
    try:
        yield
    finally:
        threading.stack_size(0)


def test_notes_of_a_hanging_disk_are_bounded(tmp_path):  # T-05
    underway, free = Underway(Unfinished(tmp_path / "a.sqlite", "a"), Alerts()), threading.Event()

    def note(number):
        def make():
            assert free.wait(60)
            return row(f"m{number}")

        return underway.note(make)

    async def scene():
        notes = [note(0)]
        await asyncio.sleep(0)  # the first one hangs
        notes += [note(number) for number in range(1, NOTES_MOST + 500)]
        refused = sum(one.done() for one in notes)
        free.set()
        return refused, Counter(await asyncio.gather(*notes))

    refused, outcomes = asyncio.run(scene())
    assert refused == outcomes[Noted.NOT] == 499 and outcomes[Noted.OURS] == NOTES_MOST + 1


def test_answer_is_closed_later_where_no_thread_is_to_be_had(tmp_path):
    register = Unfinished(tmp_path / "a.sqlite", "a")
    underway = Underway(register, Alerts(), beat_seconds=0.1)

    async def scene():
        assert await underway.note(lambda: row("m")) is Noted.OURS
        with no_threads():
            await underway.close("m")
        assert register.holds("m")
        deadline = time.monotonic() + 30
        while register.holds("m") or underway.ours:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)

    asyncio.run(scene())
