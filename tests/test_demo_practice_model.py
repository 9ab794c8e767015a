from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.deploy.demo.practice_classes import PracticeClass, classes
from lessons_loop.deploy.demo.practice_model import main
from lessons_loop.deploy.demo.practice_options import PracticeOptions, errs, wrong_result
from support.demo import TOOLS, ask, called, converse, load_tool, practice_server

LESSON = (
    "- [ab12] When operating hours of a machine given by its serial number: Look a machine up by "
    "equality on equipment_machine.serial_key, never by a text match on serial_raw; bound "
    "telemetry_hours.day_key with first_day_key and last_day_key of reporting_window."
)
HOURS = "How many operating hours did machine SN-004711 run in the trailing 12 months?"


@pytest.fixture(scope="module")
def tool(database: Path) -> Any:
    return load_tool(database)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with practice_server() as base:
        yield base


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def test_without_lesson_naive_query_first(url: str, tool: Any) -> None:
    messages = converse(url, tool, [user(HOURS)])
    assert called(messages) == ["run_sql", "describe_tables", "run_sql"]
    assert "refused" in messages[2]["content"]
    assert "serial_raw LIKE" in messages[1]["tool_calls"][0]["function"]["arguments"]
    assert "1,481.3 operating hours" in messages[-1]["content"]


def test_lesson_leads_straight_to_the_answer(url: str, tool: Any) -> None:
    messages = converse(url, tool, [system(LESSON), user(HOURS.replace("004711", "000815"))])
    assert called(messages) == ["run_sql"]
    assert len(messages[-1]["content"]) >= 200


def test_same_answer_with_and_without_lesson(url: str, tool: Any) -> None:
    without = converse(url, tool, [user(HOURS)])[-1]["content"]
    assert converse(url, tool, [system(LESSON), user(HOURS)])[-1]["content"] == without


@pytest.mark.parametrize("place", ["user", "assistant"])
def test_lesson_outside_the_system_message_is_ignored(url: str, tool: Any, place: str) -> None:
    told = {"role": place, "content": LESSON}
    messages = converse(url, tool, [told, user(HOURS)])
    assert len(called(messages)) == 3


def test_column_names_of_a_result_are_no_advice(url: str, tool: Any) -> None:
    listed = converse(url, tool, [user("Which machines are in use at Hafenbecken?")])
    assert "serial_key" in listed[2]["content"]
    again = converse(url, tool, [*listed, user(HOURS)])
    assert "serial_raw LIKE" in str(again[len(listed) + 1]["tool_calls"])


def test_server_keeps_no_state(url: str, tool: Any) -> None:
    converse(url, tool, [system(LESSON), user(HOURS)])
    assert len(called(converse(url, tool, [user(HOURS)]))) == 3


def test_lesson_on_something_else_saves_nothing(url: str, tool: Any) -> None:
    other = system("- [ab12] When counting: Use COUNT(*) with a LIMIT on work_order.")
    assert len(called(converse(url, tool, [other, user(HOURS)]))) == 3


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("Which work orders are open on SN 4711?", "open work orders"),
        ("When was sn-000815 last serviced?", "was last serviced on 202"),
        ("Which model is machine S/N 002024?", "model"),
        ("Betriebsstunden von SN-005150?", "operating hours"),
        ("Which machines are in use at Hafenbecken?", "machines are in use at Hafenbecken"),
        ("Which machines are at Val d'Or?", "machines are in use at Val d'Or"),
        ("How many work orders were about a hydraulic leak?", "work orders for hydraulic leak"),
        ("Operating hours of SN-999999?", "no matching rows"),
    ],
)
def test_answers_its_classes_of_questions(url: str, tool: Any, question: str, said: str) -> None:
    final = converse(url, tool, [user(question)])[-1]["content"]
    assert said in final
    assert "a script, not a language model" in final


def test_follow_up_keeps_the_topic(url: str, tool: Any) -> None:
    first = converse(url, tool, [user(HOURS)])
    again = converse(url, tool, [*first, user("And for SN-000815?")])
    assert called(again[len(first) :]) == ["run_sql"]
    assert "SN-000815 ran" in again[-1]["content"]


def test_follow_up_keeps_the_machine(url: str, tool: Any) -> None:
    first = converse(url, tool, [user(HOURS)])
    again = converse(url, tool, [*first, user("Which work orders are open on it?")])
    assert "SN-004711 has" in again[-1]["content"]
    thanks = converse(url, tool, [*again, user("Thank you!")])
    assert "script that stands in" in thanks[-1]["content"]


@pytest.mark.parametrize("tools", [[], TOOLS])
def test_other_questions_get_an_honest_answer(url: str, tools: list[Any]) -> None:
    message = ask(url, [user("Write a poem about autumn")], tools=tools)
    assert "script that stands in for a language model" in message["content"]
    assert "tool_calls" not in message


def test_failing_server_ends_in_words(url: str, tmp_path: Path) -> None:
    messages = converse(url, load_tool(tmp_path / "none.db"), [user(HOURS)])
    assert "could not find that out" in messages[-1]["content"]


def test_stream_carries_the_same_answer(url: str) -> None:
    body = {"messages": [user("hello")], "stream": True, "stream_options": {"include_usage": True}}
    reply = requests.post(f"{url}/chat/completions", json=body, timeout=60)
    lines = [line.removeprefix("data: ") for line in reply.text.split("\n\n") if line]
    parts = [json.loads(line) for line in lines[:-1]]
    deltas = [part["choices"][0]["delta"] for part in parts if part["choices"]]
    assert "".join(d.get("content", "") for d in deltas) == ask(url, [user("hello")])["content"]
    assert (lines[-1], parts[-1]["choices"]) == ("[DONE]", [])


def test_streamed_tool_call_is_complete(url: str) -> None:
    body = {"messages": [user(HOURS)], "tools": TOOLS, "stream": True}
    reply = requests.post(f"{url}/chat/completions", json=body, timeout=60)
    lines = [line.removeprefix("data: ") for line in reply.text.split("\n\n") if line]
    choices = [json.loads(line)["choices"][0] for line in lines[:-1]]
    calls = [call for c in choices for call in c["delta"].get("tool_calls", ())]
    assert calls[0]["function"]["name"] == "run_sql"
    assert "SELECT" in json.loads("".join(c["function"]["arguments"] for c in calls))["sql"]
    assert choices[-1]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("key", ["title", "tags", "follow_ups", "queries"])
def test_small_tasks_get_json(url: str, key: str) -> None:
    prompt = f'### Task:\nDo it.\n### Output:\nJSON format: {{ "{key}": [] }}\n### Chat History:\nx'
    assert key in json.loads(ask(url, [user(prompt)])["content"])


def test_model_list_says_it_is_a_script(url: str) -> None:
    models = requests.get(f"{url}/models", timeout=60).json()["data"]
    assert [(m["id"], m["name"]) for m in models] == [
        ("practice-model", "Practice model (a script, not an LLM)")
    ]


@pytest.mark.parametrize(
    "body", [b"", b"no json", b"[1]", b'{"messages": 3}', b'{"messages": [null, {"role": "user"}]}']
)
def test_odd_requests_get_an_answer(url: str, body: bytes) -> None:
    reply = requests.post(f"{url}/chat/completions", data=body, timeout=60)
    assert reply.status_code in (200, 400)
    assert "error" in reply.json() or "choices" in reply.json()


def test_same_request_always_errs_alike() -> None:
    options = PracticeOptions(error_rate=0.5, seed=7)
    drawn = [errs(options, seed, "hours?", first=True) for seed in range(200)]
    assert drawn == [errs(options, seed, "hours?", first=True) for seed in range(200)]
    assert 70 < sum(drawn) < 130


@pytest.mark.parametrize("change", [{"seed": 8}, {"request": 2}, {"question": "b"}])
def test_another_request_is_another_draw(change: dict[str, Any]) -> None:
    def drawn(seed: int = 7, request: int = 1, question: str = "a") -> list[bool]:
        options = PracticeOptions(0.5, seed)
        return [errs(options, request, f"{question} {n}", first=True) for n in range(50)]

    assert drawn(**change) != drawn()


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3, 1.0])
def test_errs_as_often_as_asked(rate: float) -> None:
    options = PracticeOptions(rate, seed=3)
    share = sum(errs(options, n, "hours?", first=False) for n in range(4000)) / 4000
    assert abs(share - rate) < 0.025


def test_error_changes_every_figure(tool: Any) -> None:
    with practice_server(options=PracticeOptions(error_rate=1.0)) as base:
        said = converse(base, tool, [system(LESSON), user(HOURS)])[-1]["content"]
    assert "1,481.3" not in said
    assert "operating hours" in said


@given(st.lists(st.one_of(st.integers(1, 10**9), st.floats(0.1, 1e6), st.text(min_size=1))))
def test_no_value_is_told_right_by_an_error(row: list[Any]) -> None:
    told = json.loads(wrong_result(json.dumps({"columns": ["c"] * len(row), "rows": [row]})))
    assert all(was != now for was, now in zip(row, told["rows"][0], strict=True))


@pytest.mark.parametrize("result", ["no json", "[1]", "3", '{"error": "refused"}', '{"rows": 3}'])
def test_result_without_rows_stays_as_it_is(result: str) -> None:
    assert wrong_result(result) == result


def test_tokens_are_counted(url: str) -> None:
    def used(text: str) -> dict[str, int]:
        body = {"messages": [user(text)], "tools": TOOLS}
        counted = requests.post(f"{url}/chat/completions", json=body, timeout=60).json()["usage"]
        assert counted["total_tokens"] == counted["prompt_tokens"] + counted["completion_tokens"]
        return dict(counted)

    short, long = used("hello"), used("hello " * 101)
    assert long["prompt_tokens"] - short["prompt_tokens"] == 150
    assert short["completion_tokens"] > 50


def test_naive_query_is_silently_wrong_without_advice(url: str, tool: Any) -> None:
    asked = user("How many excavators are in use?")
    advice = "- [ab12] When counting: Add `equipment_machine.retired_day IS NULL`."
    assert "11 machines" in converse(url, tool, [asked])[-1]["content"]
    assert "10 machines" in converse(url, tool, [system(advice), asked])[-1]["content"]


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.cues[0])
def test_every_class_says_what_it_needs(kind: PracticeClass) -> None:
    assert bool(kind.good) == bool(kind.needs)
    assert bool(kind.naive) != bool(kind.wrong)
    for cue in (*kind.cues, *kind.needs):
        re.compile(cue)


@pytest.mark.parametrize(
    ("then", "leans"),
    [("Which of its orders are still open?", True), ("Which orders are still open?", False)],
)
def test_only_it_leans_on_a_machine_named_before(url: str, then: str, leans: bool) -> None:
    first = [user("Rated power of SN-100815?"), {"role": "assistant", "content": "45 kW."}]
    asked = ask(url, [*first, user(then)], tools=TOOLS)
    assert ("closed_day = " in str(asked.get("tool_calls"))) == leans


def test_log_holds_what_was_received(tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    with practice_server(log) as base:
        ask(base, [system(LESSON), user("hello")])
    entry = json.loads(log.read_text("utf-8"))
    assert entry["role"] == "chat"
    assert entry["body"]["messages"][0]["content"] == LESSON


def test_command_serves_until_terminated() -> None:
    command = [sys.executable, "-m", "lessons_loop.deploy.demo.practice_model"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        base = process.stdout.readline().rpartition(" ")[2].strip()
        assert requests.get(f"{base}/models", timeout=60).ok
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.parametrize("rate", ["1.5", "-0.1", "nan", "often"])
def test_rate_that_is_no_share_is_a_usage_error(rate: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--error-rate", rate])
    assert stopped.value.code == 2
    assert "--error-rate" in capsys.readouterr().err


def test_taken_port_is_one_line() -> None:
    with practice_server() as base:
        port = base.split(":")[2].split("/")[0]
        command = [sys.executable, "-m", "lessons_loop.deploy.demo.practice_model", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"port {port} cannot be used" in done.stderr
