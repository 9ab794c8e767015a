from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.transcript import DOCUMENT, Turn, read_transcript, text_of

CAPTURES = Path(__file__).parent / "fixtures" / "captures"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(["role", "content", "output", "tool_calls", "sources", "type", "name"])
VALUES = st.sampled_from(["user", "assistant", "tool", "system", "function_call", "message"])
MESSAGES = st.lists(st.dictionaries(KEYS, VALUES | JSON, max_size=6), max_size=6)


def capture(name: str) -> list[Any]:
    messages = json.loads((CAPTURES / f"{name}.json").read_text("utf-8"))["messages"]
    assert isinstance(messages, list)
    return messages


def shape(name: str) -> list[tuple[str, str]]:
    return [(turn.role, turn.text) for turn in read_transcript(capture(name))]


def test_system_text_is_left_out() -> None:  # T-13
    assert shape("a_api_nonstream.outlet") == [
        ("user", "hello api"),
        ("assistant", "Echo: hello api"),
    ]


def test_reasoning_is_left_out() -> None:
    assert shape("b2_api_stream_reasoning.outlet")[1:] == [("assistant", "Answer after thinking.")]


def test_answer_of_only_calls_is_empty() -> None:
    assert [role for role, _ in shape("b4_api_stream_toolids.outlet")] == ["user"]


def test_tool_call_and_result_are_read() -> None:
    turns = read_transcript(capture("c3_ui_tool_call.outlet"))
    assert [turn.role for turn in turns] == ["user", "call", "result", "assistant"]
    call, result = turns[1], turns[2]
    assert (call.tool, call.text) == ("get_weather", '{"city":"Paris"}')
    assert (result.tool, result.text, result.failed) == ("get_weather", "Sunny 21C in Paris", False)
    assert call.call_id == result.call_id


def test_failed_tool_is_marked() -> None:
    turns = read_transcript(capture("c4_ui_tool_call_failing.outlet"))
    assert [turn.failed for turn in turns] == [False, False, True, False]


def test_inlet_and_outlet_read_the_same() -> None:
    """A tool turn comes as output items in the outlet, as tool messages in the inlet."""
    earlier = read_transcript(capture("c5_ui_turn_after_tool.inlet"))
    later = read_transcript(capture("c5_ui_turn_after_tool.outlet"))
    assert later[: len(earlier)] == earlier


@pytest.mark.parametrize(
    "name",
    ["c2_ui_second_turn", "d1_ui_temporary_chat", "f1_ui_regenerate", "g2_ui_error_midstream"],
)
def test_plain_chats_alternate(name: str) -> None:
    roles = [role for role, _ in shape(f"{name}.outlet")]
    assert roles == ["user", "assistant"] * (len(roles) // 2)


def test_continued_answer_is_whole() -> None:
    text = shape("k2_ui_continue_response.outlet")[-1][1]
    assert text == "Echo: hello continue\nEcho: hello continue"


def test_output_wins_over_content() -> None:
    item = {"type": "message", "content": [{"type": "output_text", "text": "real"}]}
    message = {"role": "assistant", "content": "rewritten", "output": [item]}
    assert read_transcript([message]) == (Turn("assistant", "real"),)


def test_compaction_and_unknown_output_are_left_out() -> None:
    output = [
        {"type": "open_webui:context_compaction", "summary": "earlier: run it as root"},
        {"type": "surprise", "content": "x"},
        {"type": "message", "content": [{"type": "output_text", "text": "answer"}]},
    ]
    assert read_transcript([{"role": "assistant", "output": output}]) == (
        Turn("assistant", "answer"),
    )


def test_code_interpreter_is_call_and_result() -> None:
    item = {
        "type": "open_webui:code_interpreter",
        "id": "ci",
        "code": "print(6 * 7)",
        "output": {"stdout": "42"},
    }
    call, result = read_transcript([{"role": "assistant", "output": [item]}])
    assert (call.role, call.text) == ("call", "print(6 * 7)")
    assert (result.role, "42" in result.text, result.failed) == ("result", True, False)


def test_retrieved_text_is_a_document() -> None:  # T-49
    text = "### Task:\nRespond with context.\n<context>\nplanted rule\n</context>\n\nmy question"
    assert read_transcript([{"role": "user", "content": text}]) == (
        Turn("result", "planted rule", tool=DOCUMENT),
        Turn("user", "my question"),
    )


def test_sources_are_documents() -> None:
    message = {"role": "assistant", "content": "a", "sources": [{"document": ["planted", "text"]}]}
    assert read_transcript([message])[0] == Turn("result", "planted\ntext", tool=DOCUMENT)


def test_result_shown_as_source_is_read_once() -> None:
    output = [{"type": "function_call_output", "call_id": "c", "output": [{"text": "Error: no"}]}]
    message = {"role": "assistant", "output": output, "sources": [{"document": ["Error: no"]}]}
    (result,) = read_transcript([message])
    assert (result.failed, result.tool) == (True, "")


@pytest.mark.parametrize(
    "hidden",
    [
        '<details type="reasoning" done="true">secret thoughts</details>',
        '<details type="tool_calls" result="ok">secret thoughts</details>',
        "<think>secret thoughts</think>",
        "<THINKING a='b'>secret thoughts",
    ],
)
def test_hidden_blocks_are_left_out(hidden: str) -> None:
    (turn,) = read_transcript([{"role": "assistant", "content": f"shown {hidden}"}])
    assert turn == Turn("assistant", "shown")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        (None, ""),
        ([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}], "a"),
        (["a", {"type": "input_text", "text": "b"}, 3, None], "a\nb"),
        ({"type": "text", "text": "a"}, "a"),
        (b"raw", ""),
        (7, ""),
        ("half \udc8f and \x00", "half \ufffd and "),  # T-26
    ],
)
def test_text_of_any_content(content: object, text: str) -> None:
    assert text_of(content) == text


@pytest.mark.parametrize("messages", [[], [{}], [None, 3, "x"], "text", None, {"role": "user"}])
def test_odd_bodies_give_nothing(messages: Any) -> None:  # T-14
    assert read_transcript(messages) == ()


@given(JSON)
def test_any_json_is_survived(anything: Any) -> None:
    assert isinstance(read_transcript(anything), tuple)
    assert isinstance(text_of(anything), str)


@given(MESSAGES)
def test_any_messages_are_survived(messages: list[Any]) -> None:
    for turn in read_transcript(messages):
        assert turn.role in ("user", "assistant", "call", "result")
        (turn.text + turn.tool + turn.call_id).encode()


@pytest.mark.parametrize("part", ["<source>", "<context>", "<think>", "<details ", "</source>"])
def test_tag_floods_are_linear(part: str) -> None:
    flood = part * (200_000 // len(part))
    read_transcript([{"role": "user", "content": flood}, {"role": "assistant", "content": flood}])
