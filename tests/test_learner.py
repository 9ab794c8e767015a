"""Learning from finished answers: who is left out, what reaches staging, what never does."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections import Counter

import pytest

from lessons_loop.filter.events import Tally, Usage
from lessons_loop.filter.lessons_filter import CARRIER, Filter, lesson_source
from lessons_loop.filter.models import Candidate, Record
from lessons_loop.filter.seal import is_sealed
from lessons_loop.filter.spool import (
    SPOOL_LIMIT,
    STUCK_SECONDS,
    oldest_spooled,
    spool_lock,
    spooled,
    write_spooled,
)
from lessons_loop.filter.store import StorePaths, ensure_salt, file_lock, staging_session
from support.gate import HashEmbedder
from support.llm_server import LlmServer, hangs, http_error, says
from support.outlet import LESSON, model_reply, outlet_body
from support.shelf import app_with, put_published, shelf

EMBEDDER = HashEmbedder(256)


class Loop:
    """A filter that learns through a local model server into a store of its own."""

    def __init__(self, root, server, user_valves=None, **valves):
        settings = {"distill_enabled": True, "distill_url": server.url, "distill_model": "m"}
        self.filter = Filter()
        settings |= {"store": str(root), "domains": "sql"}
        self.filter.valves = Filter.Valves(**(settings | valves))
        self.paths = StorePaths(root)
        self.user = {"id": "user-1", "valves": Filter.UserValves(**(user_valves or {}))}

    def run(self, *bodies, metadata=None, settle=30.0):
        async def scene():
            for body in bodies:
                returned = await self.filter.outlet(
                    body=body, __user__=self.user, __metadata__=metadata or {}
                )
                assert returned is body
            await self.filter.worker.settle(settle)
            await self.filter.backend.learner.drain()

        asyncio.run(scene())
        return self.filter.backend.learner.counts

    def rows(self, name):
        with staging_session(self.paths) as client:
            if name not in [c.name for c in client.list_collections()]:
                return []
            got = client.get_collection(name, embedding_function=None).get()
        return [
            Record(i, d, m)
            for i, d, m in zip(got["ids"], got["documents"], got["metadatas"], strict=True)
        ]

    def candidates(self):
        return [Candidate.from_record(r) for r in self.rows("sql-lessons-candidates")]

    def usages(self):
        return [Usage.from_record(r) for r in self.rows("sql-lessons-events")]


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


@pytest.mark.parametrize(
    ("changes", "valves", "own", "metadata"),
    [
        ({"chat": "temporary:abc"}, {}, {}, {}),
        ({"chat": "local:abc"}, {}, {}, {}),
        ({"chat": "channel:abc"}, {}, {}, {}),
        ({"chat": ""}, {}, {}, {}),
        ({}, {}, {"contribute": False}, {}),
        ({}, {}, {"use_lessons": False}, {}),
        ({}, {}, {}, {"internal": True}),
        ({}, {}, {}, {"automation_id": "a1"}),
    ],
)
def test_private_exchange_leaves_nothing(  # T-45
    tmp_path, server, caplog, changes, valves, own, metadata
):
    loop = Loop(tmp_path, server, own, debug=True, **valves)
    carried = {CARRIER: {"keys": {"sql": ["k1"]}, "texts": [], "block": ""}}
    with caplog.at_level(logging.DEBUG):
        loop.run(outlet_body(**changes), metadata=metadata | carried)
    assert loop.candidates() == [] and loop.usages() == [] and server.requests == []
    assert "4711" not in caplog.text


@pytest.mark.parametrize(
    ("changes", "valves", "reason"),
    [
        ({}, {"distill_enabled": False}, "off"),
        ({}, {"distill_max_lessons": 0}, "off"),
        ({}, {"domains": " , "}, "no-domain"),
        ({"finish": None}, {}, "broken-answer"),
        ({}, {"distill_daily_cap": 0}, "daily-cap"),
        ({}, {"distill_user_daily_cap": 0}, "daily-cap"),
    ],
)
def test_exchange_not_asked_about_is_counted(tmp_path, server, changes, valves, reason):
    loop = Loop(tmp_path, server, **valves)
    counts = loop.run(outlet_body(**changes))
    assert counts[f"skipped:{reason}"] == 1 and server.requests == []


def test_small_talk_asks_no_model(tmp_path, server):  # T-23
    loop = Loop(tmp_path, server)
    loop.run(outlet_body(reply="You are welcome.", tools=False))
    assert server.requests == [] and loop.candidates() == []


def test_api_chat_is_learned_from_when_allowed(tmp_path, server):
    loop = Loop(tmp_path, server, distill_api_chats=True)
    loop.run(outlet_body(chat=""))
    (found,) = loop.candidates()
    assert found.chat_ref == ""


def test_same_message_is_tried_once(tmp_path, server):  # T-24
    loop = Loop(tmp_path, server)
    counts = loop.run(outlet_body(), outlet_body(), outlet_body(message="msg-2"))
    assert len(server.requests) == 2 and counts["skipped:seen"] == 1
    found = loop.candidates()
    assert len(found) == 2 and len({c.lesson.key for c in found}) == 1


def test_usage_is_noted_without_learning(tmp_path, server):
    loop = Loop(tmp_path, server, distill_enabled=False)
    carried = {CARRIER: {"keys": {"sql": ["k1", "k2"]}, "texts": [], "block": ""}}
    loop.run(outlet_body(), metadata=carried)
    (usage,) = loop.usages()
    assert (usage.keys, usage.outcome) == (("k1", "k2"), "stop")
    assert (usage.model, usage.tools) == ("m", "ok")
    assert usage.chat_ref and "user-1" not in str(usage) and "chat-1" not in str(usage)


def test_one_usage_per_answer_whatever_is_called_again(tmp_path, server):
    loop = Loop(tmp_path, server, distill_enabled=False)
    carried = {CARRIER: {"keys": {"sql": ["k1"]}, "texts": [], "block": ""}}
    continued = outlet_body(reply="It ran on. " * 30)
    loop.run(
        outlet_body(finish="length"), continued, outlet_body("chat-1", "msg-2"), metadata=carried
    )
    loop.run(outlet_body())  # `/api/chat/completed` again, without what inlet carried
    assert len(loop.usages()) == 2


def test_usage_outlives_a_provider_that_sends_nonsense(tmp_path, server):
    loop = Loop(tmp_path, server, distill_enabled=False)
    carried = {CARRIER: {"keys": {"sql": ["k1"]}, "texts": [], "block": ""}}
    body = outlet_body(finish="stop\x00 and so on " * 90) | {"model": "m\ud800" * 300}
    loop.run(body, metadata=carried)
    (usage,) = loop.usages()
    assert len(usage.model) == len(usage.outcome) == 200


def test_counters_become_one_tally(tmp_path, server):
    loop = Loop(tmp_path, server)
    loop.run(outlet_body())
    assert loop.rows("sql-lessons-events") == []
    learner = loop.filter.backend.learner
    for reply in ("short", "short"):
        loop.run(outlet_body(reply=reply))
        learner._next_tally = 0.0
        asyncio.run(learner.drain())
    tallies = [Tally.from_record(row) for row in loop.rows("sql-lessons-events")]
    assert len({tally.message_ref for tally in tallies}) == len(tallies) == 2
    added = sum((Counter(tally.totals()) for tally in tallies), Counter())
    assert added == learner.counts and added["emitted"] == 1


def test_full_spool_empties_though_a_tally_is_due(tmp_path, server):
    loop = Loop(tmp_path, server)
    loop.run(outlet_body())
    loop.paths.spool.mkdir(exist_ok=True)
    usage = Usage(keys=("k",), message_ref="m", at="2026-11-02T08:00:00Z").to_record()
    write_spooled(loop.paths.spool, "sql-lessons-events", usage)
    (first,) = spooled(loop.paths.spool)
    for n in range(SPOOL_LIMIT):
        os.link(first, loop.paths.spool / f"{n:020d}-x.json")
    learner = loop.filter.backend.learner
    learner._next_tally = 0.0
    asyncio.run(learner.drain())
    assert learner.spool.waiting() < SPOOL_LIMIT and len(loop.usages()) == 1


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


def test_learning_switched_off_leaves_no_tally(tmp_path, server):
    loop = Loop(tmp_path, server, distill_enabled=False)
    loop.run(outlet_body())
    loop.filter.backend.learner._next_tally = 0.0
    loop.run(outlet_body())
    assert loop.rows("sql-lessons-events") == []


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
        counts = loop.run(outlet_body(), settle=60)
    assert counts[key] == 1 and loop.candidates() == []


def test_hanging_model_delays_no_outlet(tmp_path, caplog):  # T-05
    with LlmServer([hangs(30)]) as server, caplog.at_level(logging.WARNING):
        loop = Loop(tmp_path, server, distill_timeout_s=1)

        async def scene():
            started = time.monotonic()
            for number in range(5):
                await loop.filter.outlet(
                    body=outlet_body(message=f"m{number}"), __user__=loop.user, __metadata__={}
                )
            spent = time.monotonic() - started
            assert await loop.filter.worker.settle(30) == 0
            return spent

        assert asyncio.run(scene()) < 4  # five times a second, where one waits for its model
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
        await loop.filter.worker.settle(30)
        await loop.filter.backend.learner.drain()

    asyncio.run(scene())
    assert len(loop.candidates()) == 1


def test_locked_store_costs_no_candidate(tmp_path, server, caplog):
    loop = Loop(tmp_path, server)
    with file_lock(loop.paths.staging_lock, 0), caplog.at_level(logging.WARNING):

        async def scene():
            await loop.filter.outlet(body=outlet_body(), __user__=loop.user, __metadata__={})
            await loop.filter.worker.settle(30)

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
    await loop.filter.worker.settle(30)


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
        started = time.monotonic()
        for number in range(200):
            await loop.filter.outlet(
                body=outlet_body(message=f"m{number}"), __user__=loop.user, __metadata__={}
            )
        spent = time.monotonic() - started
        assert len(loop.filter.worker.running) <= 2
        await loop.filter.worker.settle(120)
        return spent

    assert asyncio.run(scene()) < 5
    worker = loop.filter.worker
    assert worker.counts["overflow"] > 0
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
        await loop.filter.worker.settle(30)
        await loop.filter.backend.learner.drain()

    asyncio.run(scene())
    assert len(loop.usages()) == 1 and len(loop.candidates()) == 1


@pytest.mark.parametrize("chat", ["temp:abc", "automation:1", "{'id': 1}"])
def test_chat_of_an_unknown_prefix_is_private(tmp_path, server, chat):  # T-45
    loop = Loop(tmp_path, server)
    loop.run(outlet_body(chat=chat))
    assert server.requests == [] and loop.candidates() == []


def test_long_chat_is_checked_off_the_loop(tmp_path, server):
    loop, gaps = Loop(tmp_path, server), []
    body = outlet_body()
    talk = [
        {"role": "user", "content": "works. " + "how many? " * 60},
        {"role": "assistant", "content": "ok"},
    ]
    body["messages"] = talk * 1_500 + body["messages"]

    async def ticker():
        while True:
            started = time.monotonic()
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - started)

    async def scene():
        tick = asyncio.create_task(ticker())
        await loop.filter.outlet(body=body, __user__=loop.user, __metadata__={})
        await loop.filter.worker.settle(60)
        tick.cancel()

    asyncio.run(scene())
    assert len(server.requests) == 1 and max(gaps) < 1


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


def test_continued_answer_gets_its_attempt(tmp_path, server):
    loop = Loop(tmp_path, server)
    counts = loop.run(outlet_body(finish=None), outlet_body(), outlet_body())
    assert counts["skipped:broken-answer"] == counts["skipped:seen"] == 1
    assert len(loop.candidates()) == 1
