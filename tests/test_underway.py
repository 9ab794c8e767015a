"""Notes of answers under way: bounded while the disk hangs, one warning per trouble."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing, contextmanager

import pytest

from lessons_loop.filter.alerts import Alerts
from lessons_loop.filter.lessons_filter import CARRIER, tick
from lessons_loop.filter.register import REGISTER_BUSY_SECONDS
from lessons_loop.filter.underway import NOTES_MOST, Noted, Underway
from lessons_loop.filter.unfinished import Unfinished, UnfinishedAnswer
from support.llm_server import LlmServer, hangs
from support.outlet import model_reply, outlet_body
from support.resuming import GIVEN, REQUEST, USER, Lives, given, patient


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


@pytest.fixture
def lives(tmp_path):
    with LlmServer([hangs(60), model_reply()]) as server:
        yield Lives(tmp_path, server)


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
        deadline = time.monotonic() + 60
        while register.holds("m") or underway.ours:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)

    asyncio.run(scene())


def test_lessons_told_without_keys_are_not_noted(lives):
    carried = given(GIVEN)
    del carried[CARRIER]["shown"]
    lives.die(outlet_body(), metadata=carried)
    assert lives.left() == []


@pytest.mark.parametrize("chat", ["", "temporary:abc", "local:abc", "channel:abc"])
def test_chats_that_are_not_saved_are_not_noted(lives, chat):  # T-45
    lives.source.stored["distill_api_chats"] = True
    lives.die(outlet_body(chat, "secret-4711"), asked=not chat)
    register = lives.paths.root / "attempts.sqlite"
    assert not register.exists() or b"secret-4711" not in register.read_bytes()


def test_full_queue_loses_no_answer(tmp_path):  # T-25
    with LlmServer([model_reply()]) as server:
        lives = Lives(tmp_path, server)
        workers = []

        def short(plugin):
            plugin.worker.limit = 4
            workers.append(plugin.worker)

        lives.live(*(outlet_body(message=f"m{n}") for n in range(12)), first=short)
        assert workers[0].counts["overflow"] > 0
        lives.live()
        assert len(lives.candidates()) == 12 and len(server.requests) == 12
    assert lives.left() == []


def test_answer_that_stood_back_is_learned_from_by_the_same_worker(tmp_path):  # T-25
    with LlmServer([model_reply()]) as server:
        lives = Lives(tmp_path, server)

        async def scene():
            plugin = lives.worker()
            plugin.worker.limit, plugin.backend.learner.underway.beat_seconds = 4, 0.1
            for number in range(12):
                body = outlet_body(message=f"m{number}")
                await plugin.outlet(body, USER, {}, REQUEST, "lessons")
            deadline = time.monotonic() + 60
            while len(server.requests) < 12 and time.monotonic() < deadline:
                await tick(plugin)
                await asyncio.sleep(0.1)
            assert await plugin.worker.settle(60) == 0

        asyncio.run(scene())
        assert len(server.requests) == 12 and lives.left() == []


def test_full_queue_counts_what_nobody_can_read_again(tmp_path):
    with LlmServer([model_reply()]) as server:
        lives = Lives(tmp_path, server)
        lives.source.stored["distill_api_chats"] = True

        def short(plugin):
            plugin.worker.limit = 4

        counts = lives.live(*(outlet_body("", f"m{n}") for n in range(12)), first=short)
    assert counts["lost:queue-full"] > 0
    assert counts["lost:queue-full"] + len(server.requests) == 12


def test_replaced_plugin_finishes_what_it_has_alone(tmp_path):
    """It goes on giving signs of life, so that its answers are left to it."""

    def slow(handler, received):
        time.sleep(1)
        model_reply()(handler, received)

    with LlmServer([slow]) as server:
        lives = Lives(tmp_path, server)

        async def scene():
            old = lives.worker()
            old.backend.learner.underway.beat_seconds = 0.05
            queue = old.worker
            for number in range(6):
                body = outlet_body(message=f"m{number}")
                await old.outlet(body, USER, {}, REQUEST, "lessons")
            del old
            gc.collect()
            new, beats = lives.worker(), set()
            patient(new)
            while not server.requests:
                await asyncio.sleep(0.05)
            while queue.running:
                beats.update(lives.left("beat"))
                await tick(new)
                await asyncio.sleep(0.1)
            assert max(beats) >= min(beats) + 2
            assert new.backend.learner.counts["resumed"] == 0
            await new.worker.settle(60)
            await new.backend.learner.drain()

        asyncio.run(scene())
        assert len(lives.candidates()) == len(server.requests) == 6 and lives.left() == []


def test_locked_register_delays_no_outlet(tmp_path):  # T-05
    with LlmServer([model_reply()]) as server:
        lives = Lives(tmp_path, server)
        lives.live(outlet_body(message="first"))
        with closing(sqlite3.connect(tmp_path / "attempts.sqlite", isolation_level=None)) as held:
            held.execute("begin exclusive")
            assert asyncio.run(slowest_outlet(lives)) < 0.9 * REGISTER_BUSY_SECONDS


async def slowest_outlet(lives):
    """Tell a worker of 30 answers; return the longest time one took, and any other task."""
    plugin, spent = lives.worker(), []
    for number in range(30):
        started = time.monotonic()
        await plugin.outlet(outlet_body(message=f"m{number}"), USER, {}, REQUEST, "lessons")
        await asyncio.to_thread(lambda: None)  # what Open WebUI asks its threads for
        spent.append(time.monotonic() - started)
    return max(spent)
