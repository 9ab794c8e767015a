"""Recall within its limit: engines that hang, fail, answer nonsense or are another model's."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from lessons_loop.filter.lessons_filter import Filter, limits_of
from lessons_loop.filter.shelves import PublishedFolder
from lessons_loop.filter.store import StorePaths
from support.gate import HashEmbedder
from support.hooks import ASKED, EMBEDDER, Chat, blocks
from support.patient import Ticks
from support.processes import soon
from support.shelf import app_with, put_published, shelf


@pytest.fixture
def root(tmp_path):
    put_published(StorePaths(tmp_path), shelf(), EMBEDDER)
    return tmp_path


def hanging_app():
    return app_with(EMBEDDER, delay=3600)


def test_hanging_embedder_costs_one_chat_its_limit(root, caplog):  # T-05
    chat = Chat(root, hanging_app(), recall_timeout_ms=300)

    async def scene():
        chat.filter._ready(chat.filter.valves).reader.refresh()  # reading has the same limit
        async with Ticks(0.01) as ticks:
            return [blocks(await chat.inlet()) for _ in range(5)], ticks

    with caplog.at_level(logging.WARNING):
        found, ticks = asyncio.run(scene())
    assert all(len(f) == 1 for f in found)  # words alone found it
    assert sorted(map(len, chat.request.app.calls)) == [1, 8]  # the first chat's, none after it
    assert ticks.count > 1  # the loop went on meanwhile
    assert len(caplog.records) == 1 and "did not answer in time" in caplog.text


def test_embedder_that_recovers_is_used_again(root, caplog):
    chat = Chat(root, app_with(EMBEDDER, error=RuntimeError("no model is loaded")))

    async def scene():
        await chat.inlet()
        recaller = chat.filter.backend.recaller
        assert recaller.paused_until > time.monotonic()
        chat.request.app.error, recaller.paused_until = None, 0.0
        await chat.inlet()
        return recaller

    with caplog.at_level(logging.INFO):
        recaller = asyncio.run(scene())
    assert recaller.alerts.active == {} and "works again" in caplog.text


@pytest.mark.parametrize(
    ("embedder", "says"),
    [(HashEmbedder(64), "64 dimensions"), (HashEmbedder(256, salt="x"), "256 dimensions")],
)
def test_other_embedding_model_is_refused_by_name(root, caplog, embedder, says):  # T-07
    chat = Chat(root, app_with(embedder))
    with caplog.at_level(logging.WARNING):
        found = [blocks(asyncio.run(chat.inlet())) for _ in range(2)]
    assert all(len(f) == 1 for f in found)
    assert len(caplog.records) == 1
    assert says in caplog.text and "hash-256" in caplog.text and "lessons reembed" in caplog.text


@pytest.mark.parametrize(
    "answer", [[], [[0.0] * 256], [[float("nan")] * 256], "text", None, [[1], [2]]]
)
def test_nonsense_from_the_embedder_is_survived(root, answer):
    chat = Chat(root)

    async def nonsense(query, prefix=None, user=None):
        return answer

    chat.request.app.state.EMBEDDING_FUNCTION = nonsense
    assert len(blocks(asyncio.run(chat.inlet()))) == 1


def test_no_engine_means_recall_by_words(root):
    chat = Chat(root)
    chat.request.app.state.EMBEDDING_FUNCTION = None
    assert len(blocks(asyncio.run(chat.inlet()))) == 1


def test_engine_call_that_never_ends_is_not_the_last(root):  # T-05
    chat = Chat(root, recall_timeout_ms=300)
    working, calls = chat.request.app.state.EMBEDDING_FUNCTION, []

    async def first_hangs(query, prefix=None, user=None):
        calls.append(query)
        if len(calls) == 1:
            await asyncio.sleep(3600)
        return await working(query, prefix=prefix)

    chat.request.app.state.EMBEDDING_FUNCTION = first_hangs

    async def scene():
        await chat.inlet("hello")
        recaller = chat.filter.backend.recaller
        recaller.check_seconds, recaller.paused_until = 0.1, 0.0
        recaller._checking = None  # its limit was set when the chat began
        calls.clear()
        for _ in range(200):  # a busy machine may be late some times more
            await chat.inlet()
            if not recaller.alerts.active:
                break
            await asyncio.sleep(0.3)
            recaller.paused_until = 0.0
        return recaller

    assert asyncio.run(scene()).alerts.active == {} and len(calls) > 1


@pytest.mark.parametrize("told", ["my salary is 9999 SN-4711", "Dana"])
def test_engine_error_repeats_no_chat_text(root, caplog, told):
    chat = Chat(root)

    async def echoes(query, prefix=None, user=None):
        raise ValueError(f"400, cannot embed {query!r}")

    async def scene():
        await chat.inlet("hello")
        fingerprint = chat.filter.backend.reader.loaded.fingerprint
        chat.request.app.state.EMBEDDING_FUNCTION = echoes
        chat.filter.backend.recaller._trusted = (echoes, fingerprint)
        await chat.inlet(told)

    with caplog.at_level(logging.INFO):
        asyncio.run(scene())
    assert "ValueError" in caplog.text and told not in caplog.text


def test_absurd_limits_are_cut_down(root):
    valves = Filter.Valves(recall_timeout_ms=10**9, top_k=10**9)
    limits = limits_of(valves)
    assert limits.seconds <= 60 and limits.top_k <= 64
    assert len(blocks(asyncio.run(Chat(root, recall_timeout_ms=10**9, top_k=10**9).inlet()))) == 1


def test_long_chat_does_not_hold_the_loop(root):
    turns = [{"role": r, "content": "text " * 40_000} for r in ("user", "assistant")] * 2_500
    body = {"messages": [*turns, {"role": "user", "content": ASKED}]}
    chat = Chat(root)

    async def scene():
        await chat.inlet()
        started = time.thread_time()
        assert len(blocks(await chat.inlet(body=body))) == 1
        return time.thread_time() - started

    assert asyncio.run(scene()) < 1  # 0.02 measured


def test_fingerprint_is_taken_while_the_lessons_are_read(root):
    chat, begun = Chat(root), []

    def slow(domain, known, fetch=PublishedFolder.fetch):
        soon(lambda: chat.request.app.calls, 20)
        begun.append(len(chat.request.app.calls))
        return fetch(chat.filter.backend.reader.source, domain, known)

    async def scene():
        chat.filter._ready(chat.filter.valves).reader.source.fetch = slow
        assert len(blocks(await chat.inlet())) == 1
        await chat.inlet()

    asyncio.run(scene())
    assert begun == [1]
    assert [len(texts) for texts in chat.request.app.calls] == [8, 1, 1]
