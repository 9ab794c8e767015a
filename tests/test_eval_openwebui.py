"""Open WebUI's events read as answers, and their record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lessons_loop.deploy.evaluation.openwebui import Target
from lessons_loop.deploy.evaluation.openwebui_checks import Chosen
from lessons_loop.deploy.evaluation.openwebui_read import kept, read_answer
from lessons_loop.deploy.evaluation.openwebui_record import (
    NOT_RECORDED,
    RECORD,
    Record,
    ReplayedAgent,
)
from lessons_loop.eval.question_set import EvalQuestion
from lessons_loop.eval.trials import Answer, Arm
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.inject import block
from support.shelf import shelf

Json = dict[str, Any]
QUESTION = EvalQuestion(
    id="hours", topic="hours", messages=({"role": "user", "content": "How many hours?"},)
)
CHOSEN = Chosen("m", ("run_sql",))
CALL = {
    "type": "function_call",
    "call_id": "c1",
    "name": "run_sql",
    "arguments": '{"sql": "SELECT 1"}',
    "status": "completed",
}
RESULT = {
    "type": "function_call_output",
    "call_id": "c1",
    "output": [{"type": "input_text", "text": '{"rows": [[1]]}'}],
    "status": "completed",
}


def event(kind: str, message: str = "a", **data: Any) -> Json:
    return {"message_id": message, "chat_id": "temporary:x", "data": {"type": kind, "data": data}}


def said(text: str) -> Json:
    return {"type": "message", "content": [{"type": "output_text", "text": text}]}


def whole(*output: Json, system: str = "", **last: Any) -> list[Json]:
    """Return the events of a turn that ended with this output."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "secret chat"}]
    answer = {"role": "assistant", "content": "as stored", "finish_reason": "stop"} | last
    return [
        event("chat:active", active=True),
        event("chat:completion", usage={"input_tokens": 5}),
        event("chat:completion", done=True, output=list(output), usage={"input_tokens": 90}),
        event("chat:outlet", messages=[*messages, answer]),
    ]


def read(events: list[Json]) -> Answer:
    return read_answer(kept(events, "a"), 1.25, "m")


def test_answer_has_text_calls_and_tokens() -> None:
    events = whole(CALL, RESULT, said("It ran 1 h."))
    events[2]["data"]["data"]["usage"] = {"input_tokens": 90, "output_tokens": 7}
    answer = read(events)
    assert (answer.text, answer.tokens_in, answer.tokens_out) == ("It ran 1 h.", 90, 7)
    (call,) = answer.calls
    assert (call.tool, call.arguments, call.failed) == ("run_sql", '{"sql": "SELECT 1"}', False)
    assert (call.result, answer.seconds, answer.outage) == ('{"rows": [[1]]}', 1.25, "")


@pytest.mark.parametrize(
    "result",
    [
        RESULT | {"status": "failed"},
        RESULT | {"output": [{"type": "input_text", "text": '{"error": "refused"}'}]},
        said("no result at all"),
    ],
)
def test_failed_call_is_one_by_status_shape_or_absence(result: Json) -> None:
    assert [call.failed for call in read(whole(CALL, result)).calls] == [True]


def test_reasoning_is_no_answer() -> None:
    thought = {"type": "reasoning", "content": [{"type": "output_text", "text": "hmm 47"}]}
    assert read(whole(thought, said("12"))).text == "12"


def test_answer_that_is_only_stored_is_read() -> None:
    assert read(whole()).text == "as stored"


def test_recalled_lessons_are_those_of_the_block() -> None:
    lessons = shelf()
    answer = read(whole(said("x"), system="Own prompt.\n" + block(lessons)))
    assert answer.recalled == tuple(lesson.key[:8] for lesson in lessons)
    assert read(whole(said("x"), system="- [01234567] Trigger: mine")).recalled == ()


@pytest.mark.parametrize(
    ("events", "outage"),
    [
        ([event("chat:message:error", error={"content": "boom 500"})], "boom 500"),
        ([event("chat:completion", error={"message": "boom mid stream"})], "boom mid stream"),
        (whole(said("half"), finish_reason=None), "broke off"),
        ([event("chat:active", active=False)], "without an answer"),
        (whole(said("other"))[:3], "broke off"),
    ],
)
def test_no_whole_answer_is_an_outage(events: list[Json], outage: str) -> None:
    answer = read(events)
    assert outage in answer.outage and answer.text == ""


def test_secret_in_an_outage_is_masked() -> None:
    told = "401 for key sk-proj-" + "a1B2" * 10
    answer = read([event("chat:message:error", error={"content": told})])
    assert "401" in answer.outage and "a1B2a1B2" not in answer.outage


def test_other_messages_of_the_page_are_left_out() -> None:
    events = whole(said("mine"))
    events.insert(3, event("chat:completion", "b", done=True, output=[said("another's")]))
    assert read(events).text == "mine"


def test_record_answers_again_without_the_server(tmp_path: Path) -> None:
    told = kept(whole(CALL, RESULT, said("It ran 1 h."), system=block(shelf())), "a")
    answer = read_answer(told, 1.25, "m")
    Record(tmp_path, CHOSEN).add(QUESTION, Arm.ON, 7, told, answer)
    agent = ReplayedAgent(tmp_path)
    assert agent.answer(QUESTION, Arm.ON, 7) == answer and answer.recalled
    assert agent.answer(QUESTION, Arm.OFF, 7).outage == NOT_RECORDED
    assert agent.answer(QUESTION, Arm.ON, 8).outage == NOT_RECORDED
    assert "m" in agent.name


def test_record_is_the_owners_and_holds_the_chat_once(tmp_path: Path) -> None:
    told = kept(whole(said("x"), system="Own prompt of the model."), "a")
    Record(tmp_path, CHOSEN).add(QUESTION, Arm.ON, 7, told, Answer())
    file = tmp_path / RECORD
    assert file.stat().st_mode & 0o077 == 0
    assert "secret chat" not in file.read_text("utf-8")
    assert "Own prompt" not in file.read_text("utf-8")


def test_outage_is_recorded_and_a_later_answer_counts(tmp_path: Path) -> None:
    record = Record(tmp_path, CHOSEN)
    record.add(QUESTION, Arm.OFF, 7, [], Answer(outage="down", seconds=2.0))
    assert ReplayedAgent(tmp_path).answer(QUESTION, Arm.OFF, 7).outage == "down"
    told = kept(whole(said("up again")), "a")
    record.add(QUESTION, Arm.OFF, 7, told, read_answer(told, 1.0, "m"))
    assert ReplayedAgent(tmp_path).answer(QUESTION, Arm.OFF, 7).text == "up again"


@pytest.mark.parametrize("torn", [b'{"key": "x", "to', b"\xff\xfe\n", b"[]\n", b'{"key": "x"}\n'])
def test_torn_record_loses_its_torn_line_only(tmp_path: Path, torn: bytes) -> None:
    told = kept(whole(said("12")), "a")
    Record(tmp_path, CHOSEN).add(QUESTION, Arm.ON, 7, told, read_answer(told, 1.0, "m"))
    with (tmp_path / RECORD).open("ab") as file:
        file.write(torn)
    assert ReplayedAgent(tmp_path).answer(QUESTION, Arm.ON, 7).text == "12"


def test_record_goes_on_behind_a_torn_line(tmp_path: Path) -> None:
    (tmp_path / RECORD).write_bytes(b'{"key": "x", "to')
    told = kept(whole(said("line\u2028end")), "a")
    Record(tmp_path, CHOSEN).add(QUESTION, Arm.ON, 7, told, read_answer(told, 1.0, "m"))
    assert ReplayedAgent(tmp_path).answer(QUESTION, Arm.ON, 7).text == "line\u2028end"


def test_missing_record_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(LessonsError, match=r"openwebui\.jsonl cannot be read"):
        ReplayedAgent(tmp_path)


def test_secrets_stand_in_no_repr() -> None:
    target = Target("http://h", admin_email="a@b.example", password="fake-pw", token="fake-tok")
    assert "fake" not in repr(target)
