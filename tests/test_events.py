"""What is noted of a finished answer: which lessons it was given, and counters now and then."""

from __future__ import annotations

import asyncio
import os
from collections import Counter

import pytest

from lessons_loop.filter.events import Tally, Usage
from lessons_loop.filter.lessons_filter import CARRIER
from lessons_loop.filter.spool import (
    SPOOL_LIMIT,
    spooled,
    write_spooled,
)
from support.learning import Loop
from support.llm_server import LlmServer
from support.outlet import model_reply, outlet_body


@pytest.fixture
def server():
    with LlmServer([model_reply()]) as running:
        yield running


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


def test_learning_switched_off_leaves_no_tally(tmp_path, server):
    loop = Loop(tmp_path, server, distill_enabled=False)
    loop.run(outlet_body())
    loop.filter.backend.learner._next_tally = 0.0
    loop.run(outlet_body())
    assert loop.rows("sql-lessons-events") == []
