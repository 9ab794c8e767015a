"""Replies of a model as the harness reads them: calls, their ids, what is odd."""

from __future__ import annotations

import json

import pytest

from lessons_loop.eval.agent.reply import read_reply, split_objects
from lessons_loop.filter.errors import ModelError, UnreadableReply
from support.llm_server import completion


@pytest.mark.parametrize(
    ("calls_given", "ids"),
    [
        ([{"id": "a"}, {"id": "a"}], ["a", "call_7_1"]),
        ([{"id": None}, {"id": ""}, {}], ["call_7_0", "call_7_1", "call_7_2"]),
    ],
)
def test_ids_are_made_unique_and_the_same_each_time(calls_given, ids):
    listed = [one | {"function": {"name": "add", "arguments": {"a": 1}}} for one in calls_given]
    reply = completion(None, "tool_calls", tool_calls=listed)
    found = read_reply(reply, 7).calls
    assert [one.id for one in found] == ids and found[0].arguments == '{"a": 1}'
    assert read_reply(reply, 7) == read_reply(reply, 7)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('{"a":1}{"a":2} {"a":3}', ['{"a":1}', '{"a":2}', '{"a":3}']),
        (' {"a": 1} ', ['{"a": 1}']),
        ('{"a":1}{"a":', ['{"a":1}{"a":']),
        ("", [""]),
    ],
)
def test_objects_behind_one_another_are_calls_of_their_own(text, parts):
    assert split_objects(text) == parts


@pytest.mark.parametrize("odd", [[None, 5, {"id": "x"}], {"a": 1}, "text", None])
def test_odd_tool_calls_are_left_out(odd):
    assert read_reply(completion("fine", "stop", tool_calls=odd), 0).calls == ()


def test_odd_replies_are_model_errors():
    for reply, kind in (({}, UnreadableReply), ({"error": "x", "choices": None}, ModelError)):
        with pytest.raises(kind):
            read_reply(reply, 0)


def test_half_surrogates_reach_no_record():
    message = {
        "tool_calls": [{"id": "a\ud800", "function": {"name": "b\ud800", "arguments": "\ud800"}}]
    }
    said = read_reply(completion("\ud800", "stop", **message) | {"model": "m\ud800"}, 0)
    assert "\ud800" not in f"{said}" and json.dumps(str(said)).encode("ascii")
