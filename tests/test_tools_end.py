"""How the tools behind an answer ended, from output items and from API messages."""

from __future__ import annotations

import json

import pytest

from lessons_loop.filter.tools_end import how_tools_ended
from support.outlet import call, outlet_body

ROWS = json.dumps({"columns": ["n"], "rows": [[812]]})
REFUSED = json.dumps({"error": "no such table: machine"})
QUESTION = {"role": "user", "content": "How many?"}


def answer(*calls, **more):
    output = [part for made in calls for part in made]
    output.append({"type": "message", "content": [{"type": "output_text", "text": "812."}]})
    return {"role": "assistant", "content": "812.", "output": output} | more


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([], ""),
        ([call(1, "q", ROWS)], "ok"),
        ([call(1, "q", REFUSED, failed=True), call(2, "q2", ROWS)], "ok"),
        ([call(1, "q", ROWS), call(2, "q2", REFUSED, failed=True)], "failed"),
        ([call(1, "q", "Error: connection refused")], "failed"),
        ([call(1, "q", ROWS, failed=True)], "failed"),
        ([call(1, "q", "[]")], ""),
        ([call(1, "q", ROWS)[:1]], ""),
    ],
)
def test_last_result_decides(calls, expected):
    assert how_tools_ended([QUESTION, answer(*calls)], whole=True) == expected


def test_broken_answer_is_never_ok():
    messages = [QUESTION, answer(call(1, "q", ROWS))]
    assert how_tools_ended(messages, whole=False) == ""
    failing = [QUESTION, answer(call(1, "q", REFUSED))]
    assert how_tools_ended(failing, whole=False) == "failed"


def test_only_the_newest_answer_counts():
    earlier = answer(call(1, "q", REFUSED, failed=True))
    messages = [QUESTION, earlier, QUESTION, answer()]
    assert how_tools_ended(messages, whole=True) == ""


def test_api_tool_messages_count():
    asked = {"id": "c1", "function": {"name": "run_sql", "arguments": "{}"}}
    messages = [
        QUESTION,
        {"role": "assistant", "content": "", "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": "c1", "content": ROWS},
        {"role": "assistant", "content": "812."},
    ]
    assert how_tools_ended(messages, whole=True) == "ok"


def test_retrieved_documents_are_no_tools():
    source = {"document": ["Error: this page tells of errors"], "metadata": [{}]}
    assert how_tools_ended([QUESTION, answer(sources=[source])], whole=True) == ""


@pytest.mark.parametrize("messages", [[], [None], ["text"], [QUESTION], [{"role": 7}]])
def test_odd_messages_say_nothing(messages):
    assert how_tools_ended(messages, whole=True) == ""


def test_corrected_call_of_a_whole_exchange_is_ok():
    assert how_tools_ended(outlet_body()["messages"], whole=True) == "ok"
