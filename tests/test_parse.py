from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.errors import UnreadableReply
from lessons_loop.filter.parse import ReplyContent, parse_reply

ONE = {"text": "Pin the base image.", "quote": "latest moved overnight", "lines": [1, 2]}
OTHER = {"text": "Drain first.", "quote": "pods were killed", "lines": [3]}
BOTH = json.dumps({"lessons": [ONE, OTHER]})
SINGLE = json.dumps({"lessons": [ONE]})


def texts(reply: str) -> list[str]:
    return [proposal.text for proposal in parse_reply(reply).proposals]


# T-15
@pytest.mark.parametrize(
    "before",
    [
        "<think>\nabout {retries}. Maybe [] ?\n</think>\n\n",
        "<THINKING>{}</THINKING>",
        '<reason a="b">x</reason><think>[1]</think>',
        "thoughts {without} an opening tag</think>",
    ],
)
def test_thinking_is_dropped(before: str) -> None:
    assert texts(before + SINGLE) == [ONE["text"]]


def test_endless_thinking_is_unreadable() -> None:
    with pytest.raises(UnreadableReply):
        parse_reply("<think>I would say " + SINGLE)


def test_tags_inside_a_lesson_stay() -> None:
    lesson = ONE | {"text": "Strip <think> blocks before parsing."}
    assert texts(json.dumps({"lessons": [lesson]})) == [lesson["text"]]


# T-17
@pytest.mark.parametrize(
    "reply",
    [
        f"Here is what I found:\n```json\n{SINGLE}\n```\nHope this helps!",
        f"```\n{SINGLE[:-2]},]}}\n```",
        "\ufeff" + SINGLE,
        f"See [1] and {{that}}.\n{SINGLE}",
    ],
)
def test_wrapping_is_tolerated(reply: str) -> None:
    assert texts(reply) == [ONE["text"]]


# T-18
@pytest.mark.parametrize("cut", range(len(SINGLE) + 1, len(BOTH) - 3, 7))
def test_cut_reply_keeps_what_is_complete(cut: int) -> None:
    content = parse_reply(BOTH[:cut])
    assert [proposal.text for proposal in content.proposals] == [ONE["text"]]
    assert content.cut_off


def test_whole_reply_is_not_cut_off() -> None:
    assert not parse_reply(BOTH).cut_off


# T-19
@pytest.mark.parametrize(
    "reply",
    [
        "NOTHING",
        "NOTHING.",
        "Nothing",
        '"NOTHING"',
        "**NOTHING**",
        "NOTHING\n\nSmall talk.",
        '{"lessons": []}',
        "[]",
        '```json\n{"lessons": []}\n```',
        '{"lessons": null}',
        "<think>hm</think>NOTHING",
        "The answer is NOTHING.",
        '{"answer": "NOTHING"}',
        "Nothing here is durable.",
    ],
)
def test_nothing_is_nothing(reply: str) -> None:
    assert parse_reply(reply) == ReplyContent()


def test_nothing_inside_a_lesson_is_a_lesson() -> None:
    lesson = ONE | {"text": "NOTHING in the cache is safe to trust after a failover."}
    assert texts(json.dumps({"lessons": [lesson]})) == [lesson["text"]]


# T-21
@pytest.mark.parametrize(
    ("value", "good", "bad"),
    [
        ([ONE], 1, 0),
        (ONE, 1, 0),
        ({"lessons": ONE}, 1, 0),
        ({"output": {"lessons": [ONE]}}, 1, 0),
        ({"lesson": "A", "evidence": "a"}, 1, 0),
        ({"lessons": ["A"]}, 0, 1),
        ({"lessons": [{"text": "A"}]}, 0, 1),
        ({"lessons": [ONE, {"text": 5, "quote": None}, {"text": "", "quote": "x"}, None]}, 1, 3),
        ({"lessons": [ONE, OTHER, ONE, OTHER]}, 4, 0),
    ],
)
def test_other_shapes_cost_only_themselves(value: object, good: int, bad: int) -> None:
    content = parse_reply(json.dumps(value))
    assert (len(content.proposals), content.misshapen) == (good, bad)


@pytest.mark.parametrize(
    "reply", ["", "  ", "I learned a lot today.", "lesson: pin it", '{"score": 3}', "[1, 2]", "{"]
)
def test_free_text_is_never_a_lesson(reply: str) -> None:
    with pytest.raises(UnreadableReply):
        parse_reply(reply)


@pytest.mark.parametrize("lines", [[3], "3", ["[3]"], "L3", 3])
def test_line_numbers_in_any_dress(lines: object) -> None:
    (proposal,) = parse_reply(json.dumps([ONE | {"lines": lines}])).proposals
    assert proposal.lines == (3,)


@given(st.text())
def test_any_reply_is_read_or_unreadable(reply: str) -> None:
    try:
        parse_reply(reply)
    except UnreadableReply as error:
        assert "\n" not in str(error)


@given(st.text(max_size=40), st.text(max_size=40), st.integers(0, 200))
def test_any_cut_is_survived(before: str, after: str, cut: int) -> None:
    with contextlib.suppress(UnreadableReply):
        parse_reply(before + BOTH[:cut] + after)


@pytest.mark.parametrize("part", ["[", "{", '{"', "[{", "<think>", '{"lessons":[', "]}"])
def test_floods_are_survived(part: str) -> None:
    with pytest.raises(UnreadableReply):
        parse_reply(part * 50_000)
