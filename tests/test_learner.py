"""Learning from finished answers: what reaches staging, what never does, what goes wrong."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time

import pytest

from lessons_loop.filter.events import Usage
from lessons_loop.filter.lessons_filter import CARRIER, lesson_source
from lessons_loop.filter.seal import is_sealed
from lessons_loop.filter.spool import (
    STUCK_SECONDS,
    oldest_spooled,
    spool_lock,
    write_spooled,
)
from lessons_loop.filter.store import StorePaths, ensure_salt, file_lock
from support.gate import HashEmbedder
from support.learning import Loop
from support.llm_server import LlmServer, hangs, http_error, says
from support.outlet import LESSON, model_reply, outlet_body
from support.shelf import app_with, put_published, shelf

EMBEDDER = HashEmbedder(256)


@pytest.fixture
def server():
    with LlmServer([model_reply()]) as running:
        yield running


def test_changed_call_becomes_a_candidate(tmp_path, server):
    loop = Loop(tmp_path, server)
    counts = loop.run(outlet_body())
    (found,) = loop.candidates()
    assert found.lesson.text == LESSON["text"] and found.evidence.kind == "changed-call"
    assert "812.5" in found.evidence.quote and found.evidence.tools == ("run_sql",)
    assert counts["emitted"] == 1
    assert "user-1" not in str(found) and "chat-1" not in str(found)
    assert found.user_ref and found.chat_ref
    assert is_sealed(ensure_salt(StorePaths(tmp_path)), found)


def test_worker_that_hangs_is_warned_of_once(tmp_path, server, caplog):
    loop = Loop(tmp_path, server)
    loop.run(outlet_body())
    usage = Usage(keys=("k",), message_ref="m", at="2026-11-02T08:00:00Z").to_record()
    write_spooled(loop.paths.spool, "sql-lessons-events", usage)
    os.utime(oldest_spooled(loop.paths.spool), (time.time() - STUCK_SECONDS - 90,) * 2)
    learner = loop.filter.backend.learner
    with file_lock(spool_lock(loop.paths), 1):
        for _ in range(2):
            asyncio.run(learner.drain())
    told = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert len(told) == 1 and "spool.lock is held by another worker" in told[0]
    asyncio.run(learner.drain())
    assert learner.spool.waiting() == 0 and len(loop.usages()) == 1


def test_worker_that_waits_for_another_says_nothing_works_again(tmp_path, server):
    loop = Loop(tmp_path, server)
    loop.run(outlet_body())
    usage = Usage(keys=("k",), message_ref="m", at="2026-11-02T08:00:00Z").to_record()
    write_spooled(loop.paths.spool, "sql-lessons-events", usage)
    learner = loop.filter.backend.learner
    learner.alerts.warn("staging", "the server does not answer")
    with file_lock(spool_lock(loop.paths), 1):
        asyncio.run(learner.drain())
    assert "staging" in learner.alerts.active
    asyncio.run(learner.drain())
    assert "staging" not in learner.alerts.active and len(loop.usages()) == 1


def test_recalled_lesson_is_not_learned_again(tmp_path, server):  # T-13
    loop = Loop(tmp_path, server)
    carried = {CARRIER: {"keys": {"sql": ["k"]}, "texts": [LESSON["text"]], "block": ""}}
    counts = loop.run(outlet_body(), metadata=carried)
    assert loop.candidates() == []
    assert any(name.startswith("dropped:") for name in counts)


def test_shown_lessons_are_no_documents_of_the_chat(tmp_path, server):  # T-13
    loop = Loop(tmp_path, server)
    body = outlet_body()
    shown = lesson_source(shelf()[0])
    other = {"source": {"name": "page"}, "document": ["retrieved text"], "metadata": [{}]}
    body["messages"][-1]["sources"] = [shown, other]
    loop.run(body)
    prompt = json.dumps([request.body for request in server.requests])
    assert shelf()[0].lesson.text not in prompt and "retrieved text" in prompt


@pytest.mark.parametrize(
    ("reply", "key"),
    [
        (says("NOTHING"), "nothing"),
        (says("I think the lesson is to be careful."), "unreadable"),
        (says('{"lessons":[{"text":"Use', "length"), "cut-off"),
        (http_error(500), "endpoint-failed"),
    ],
)
def test_outcomes_are_counted_apart(tmp_path, reply, key):
    with LlmServer([reply]) as server:
        loop = Loop(tmp_path, server)
        counts = loop.run(outlet_body())
    assert counts[key] == 1 and loop.candidates() == []


def test_hanging_model_delays_no_outlet(tmp_path, caplog):  # T-05
    with LlmServer([hangs(30)]) as server, caplog.at_level(logging.WARNING):
        loop = Loop(tmp_path, server, distill_timeout_s=1)

        async def scene():
            for number in range(5):
                await loop.filter.outlet(
                    body=outlet_body(message=f"m{number}"), __user__=loop.user, __metadata__={}
                )
            given_up = loop.filter.backend.learner.counts["endpoint-failed"]
            assert await loop.filter.worker.settle(60) == 0
            return given_up

        assert asyncio.run(scene()) < 5  # all five, where an outlet waits for its model
    assert loop.filter.backend.learner.counts["endpoint-failed"] == 5
    assert len([r for r in caplog.records if "lessons" in r.name]) == 1


def test_stop_of_the_outlet_does_not_stop_learning(tmp_path, server):
    loop = Loop(tmp_path, server)

    async def scene():
        task = asyncio.create_task(
            loop.filter.outlet(body=outlet_body(), __user__=loop.user, __metadata__={})
        )
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await loop.filter.worker.settle(60)
        await loop.filter.backend.learner.drain()

    asyncio.run(scene())
    assert len(loop.candidates()) == 1


def test_locked_store_costs_no_candidate(tmp_path, server, caplog):
    loop = Loop(tmp_path, server)
    with file_lock(loop.paths.staging_lock, 0), caplog.at_level(logging.WARNING):

        async def scene():
            await loop.filter.outlet(body=outlet_body(), __user__=loop.user, __metadata__={})
            await loop.filter.worker.settle(60)

        asyncio.run(scene())
        assert loop.filter.backend.learner.spool.waiting() == 1
    assert sum("wait in" in r.message for r in caplog.records) == 1
    later = Loop(tmp_path, server)  # as after a restart
    later.run(outlet_body(chat="temporary:x"))
    assert len(later.candidates()) == 1


def test_unwritable_store_breaks_nothing(tmp_path, server, caplog):
    (tmp_path / "store").write_text("a file where the folder should be")
    loop = Loop(tmp_path / "store", server)
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            asyncio.run(_one_outlet(loop, f"m{number}"))
    warnings = [r.message for r in caplog.records if "lessons" in r.name]
    assert 1 <= len(warnings) <= 2


async def _one_outlet(loop, message):
    body = outlet_body(message=message)
    assert await loop.filter.outlet(body=body, __user__=loop.user, __metadata__={}) is body
    await loop.filter.worker.settle(60)


def test_secret_reaches_neither_model_nor_store(tmp_path, server, caplog):  # T-46
    loop = Loop(tmp_path, server, debug=True)
    body = outlet_body()
    secret = "sk-test-FAKE0123456789abcdefFAKE"
    body["messages"][0]["content"] += f" the key is {secret}, mail jo@example.com"
    with caplog.at_level(logging.DEBUG):
        loop.run(body)
    sent = json.dumps([request.body for request in server.requests])
    assert secret not in sent and "jo@example.com" not in sent and "[secret" in sent
    assert secret not in str(loop.candidates()) and secret not in caplog.text
    assert all(secret.encode() not in f.read_bytes() for f in tmp_path.rglob("*") if f.is_file())


def test_key_of_the_endpoint_is_never_told(tmp_path, caplog):  # T-47
    with LlmServer([http_error(401, "bad key sk-FAKE-valve")]) as server:
        loop = Loop(tmp_path, server, distill_api_key="sk-FAKE-valve")
        with caplog.at_level(logging.DEBUG):
            loop.run(outlet_body())
    assert "sk-FAKE-valve" not in caplog.text
    assert any("lessons" in r.name for r in caplog.records)


def test_many_chats_at_once_are_bounded(tmp_path, server):  # T-25
    loop = Loop(tmp_path, server)

    async def scene():
        for number in range(200):
            await loop.filter.outlet(
                body=outlet_body(message=f"m{number}"), __user__=loop.user, __metadata__={}
            )
        assert len(loop.filter.worker.running) <= 2
        assert await loop.filter.worker.settle(200) == 0

    asyncio.run(scene())
    worker = loop.filter.worker
    assert worker.counts["overflow"] > 0  # none, where an outlet waits for its model
    assert (
        worker.counts["overflow"] + len(server.requests) + worker.counts["failed"]
        == 200 - (loop.filter.backend.learner.counts["skipped:daily-cap"])
    )


def test_published_lessons_and_learning_share_one_store(tmp_path, server):
    put_published(StorePaths(tmp_path), shelf(), EMBEDDER)
    loop = Loop(tmp_path, server)
    loop.filter.valves.distill_enabled = True
    app = app_with(EMBEDDER)

    class Request:
        pass

    Request.app = app
    metadata = {"chat_id": "chat-1"}

    async def scene():
        body = {"messages": [{"role": "user", "content": "expiring certificate of the ingress?"}]}
        await loop.filter.inlet(
            body=body, __user__=loop.user, __metadata__=metadata, __request__=Request()
        )
        await loop.filter.outlet(body=outlet_body(), __user__=loop.user, __metadata__=metadata)
        await loop.filter.worker.settle(60)
        await loop.filter.backend.learner.drain()

    asyncio.run(scene())
    assert len(loop.usages()) == 1 and len(loop.candidates()) == 1


def test_long_chat_is_checked_off_the_loop(tmp_path, server):
    loop, gaps = Loop(tmp_path, server), []
    body = outlet_body()
    talk = [
        {"role": "user", "content": "works. " + "how many? " * 60},
        {"role": "assistant", "content": "ok"},
    ]
    body["messages"] = talk * 600 + body["messages"]

    async def ticker():
        while True:
            started = time.thread_time()
            await asyncio.sleep(0.01)
            gaps.append(time.thread_time() - started)  # what the loop itself had to do

    async def scene():
        tick = asyncio.create_task(ticker())
        await loop.filter.outlet(body=body, __user__=loop.user, __metadata__={})
        await loop.filter.worker.settle(60)
        tick.cancel()

    asyncio.run(scene())
    assert len(server.requests) == 1 and max(gaps) < 0.5  # 1.7 s, on the loop


def test_endpoint_error_repeats_no_chat_text(tmp_path, caplog):
    def echoes(handler, received):
        said = received.body["messages"][-1]["content"]
        http_error(400, f"bad prompt: {said[said.index('[1]') :]}")(handler, received)

    with LlmServer([echoes]) as server, caplog.at_level(logging.INFO):
        counts = Loop(tmp_path, server).run(outlet_body())
    assert counts["endpoint-failed"] == 1 and "distill model failed" in caplog.text
    assert "operating hours" not in caplog.text


def test_absurd_time_limit_is_cut_down(tmp_path, server):
    loop = Loop(tmp_path, server, distill_timeout_s=10**9)
    loop.run(outlet_body())
    assert len(loop.candidates()) == 1
