"""Which finished answers are left alone: private ones, broken ones, those asked about before."""

from __future__ import annotations

import logging

import pytest

from lessons_loop.filter.lessons_filter import CARRIER
from support.learning import Loop
from support.llm_server import LlmServer
from support.outlet import model_reply, outlet_body


@pytest.fixture
def server():
    with LlmServer([model_reply()]) as running:
        yield running


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


@pytest.mark.parametrize("chat", ["temp:abc", "automation:1", "{'id': 1}"])
def test_chat_of_an_unknown_prefix_is_private(tmp_path, server, chat):  # T-45
    loop = Loop(tmp_path, server)
    loop.run(outlet_body(chat=chat))
    assert server.requests == [] and loop.candidates() == []


def test_continued_answer_gets_its_attempt(tmp_path, server):
    loop = Loop(tmp_path, server)
    counts = loop.run(outlet_body(finish=None), outlet_body(), outlet_body())
    assert counts["skipped:broken-answer"] == counts["skipped:seen"] == 1
    assert len(loop.candidates()) == 1
