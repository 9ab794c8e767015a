from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lessons_loop.deploy.local.demo import NotObserved, Observations, check_first, check_second
from lessons_loop.deploy.webui.browser import Turn
from lessons_loop.deploy.webui.exchange import Call, Exchange, read_calls, read_exchange
from lessons_loop.filter.inject import block
from support.shelf import shelved

LESSON = shelved()
NAIVE = Call("run_sql", "SELECT 1 FROM m WHERE serial_raw LIKE '%1%'", '{"error": "no"}', True)
RIGHT = Call("run_sql", "SELECT 1 FROM m WHERE serial_key = '1'", '{"rows": [[1]]}', False)
FIRST = Exchange("q1", "a1", (NAIVE, RIGHT), (), (), ("",))
SECOND = Exchange("q2", "a2", (RIGHT,), ("Using 1",), ("Lesson",), (block([LESSON]),))


def test_whole_loop_is_observed() -> None:
    seen = Observations()
    check_first(FIRST, seen)
    check_second(FIRST, SECOND, LESSON, seen)
    assert len(seen.seen) == 9


@pytest.mark.parametrize(
    ("exchange", "step"),
    [
        (replace(FIRST, calls=(RIGHT,)), "a query was refused"),
        (replace(FIRST, calls=(NAIVE,)), "a changed query worked"),
        (replace(FIRST, calls=(NAIVE, replace(NAIVE, refused=False))), "a changed query worked"),
        (replace(FIRST, answer=""), "the question was answered"),
        (replace(FIRST, system=()), "the provider was asked"),
    ],
)
def test_missing_step_of_the_first_chat_is_named(exchange: Exchange, step: str) -> None:
    with pytest.raises(NotObserved, match=f"step not observed: first chat: {step}"):
        check_first(exchange, Observations())


@pytest.mark.parametrize(
    ("first", "second", "step"),
    [
        (replace(FIRST, system=(block([LESSON]),)), SECOND, "first chat: no lesson"),
        (FIRST, replace(SECOND, system=("",)), "the provider received the lesson"),
        (FIRST, replace(SECOND, system=()), "the provider received the lesson"),
        (FIRST, replace(SECOND, system=(block([LESSON]), "")), "the provider received"),
        (FIRST, replace(SECOND, sources=()), "the user saw which lesson"),
        (FIRST, replace(SECOND, calls=(NAIVE,)), "no query was refused"),
        (FIRST, replace(SECOND, calls=()), "no query was refused"),
        (FIRST, replace(SECOND, calls=(RIGHT, RIGHT)), "fewer tool calls"),
    ],
)
def test_missing_step_of_the_second_chat_is_named(
    first: Exchange, second: Exchange, step: str
) -> None:
    with pytest.raises(NotObserved, match=step):
        check_second(first, second, LESSON, Observations())


def test_tool_calls_are_read_with_their_results() -> None:
    output = [
        {"type": "function_call", "call_id": "1", "name": "run_sql", "arguments": '{"sql": "S"}'},
        {
            "type": "function_call_output",
            "call_id": "1",
            "output": [{"type": "input_text", "text": '{"error": "refused"}'}],
        },
        {"type": "function_call", "call_id": "2", "name": "describe_tables", "arguments": "{}"},
        {"type": "message", "content": []},
    ]
    first, second = read_calls(output)
    assert first == Call("run_sql", "S", '{"error": "refused"}', True)
    assert (second.arguments, second.result, second.refused) == ("", "", False)


def test_only_the_questions_own_requests_count(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    entries = [
        {"role": "chat", "body": {"messages": [{"role": "user", "content": "other"}]}},
        {"role": "task", "body": {"messages": [{"role": "user", "content": "title of q2"}]}},
        {
            "role": "chat",
            "body": {
                "messages": [
                    {"role": "system", "content": "lesson"},
                    {"role": "user", "content": "q2"},
                ]
            },
        },
    ]
    log.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    exchange = read_exchange("q2", Turn("c", "q", "a"), {"content": "fine"}, log)
    assert exchange.system == ("lesson",)


def test_missing_log_means_not_asked(tmp_path: Path) -> None:
    exchange = read_exchange("q", Turn("c", "q", "a"), {}, tmp_path / "none")
    assert exchange.system == ()
