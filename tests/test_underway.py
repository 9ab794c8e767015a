"""Notes of answers under way: bounded while the disk hangs, one warning per trouble."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

from lessons_loop.filter.alerts import Alerts
from lessons_loop.filter.underway import NOTES_MOST, Noted, Underway
from lessons_loop.filter.unfinished import Unfinished, UnfinishedAnswer


def test_notes_of_a_hanging_disk_are_bounded(tmp_path):  # T-05
    underway, free = Underway(Unfinished(tmp_path / "a.sqlite", "a"), Alerts()), threading.Event()

    def note(number):
        def make():
            assert free.wait(60)
            return UnfinishedAnswer(f"m{number}", "c", "p", "sql", "stop", "{}", "[]", "u", "r", "")

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
