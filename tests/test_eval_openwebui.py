"""Open WebUI's events as answers, their record, refusals that name the next step."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from lessons_loop.deploy.eval_openwebui import NO_PLACEBO, Target, openwebui_agent
from lessons_loop.deploy.eval_openwebui_accounts import open_accounts, sign_in
from lessons_loop.deploy.eval_openwebui_checks import Chosen, choose, require_plugin
from lessons_loop.deploy.eval_openwebui_read import kept, read_answer
from lessons_loop.deploy.eval_openwebui_record import NOT_RECORDED, RECORD, Record, ReplayedAgent
from lessons_loop.deploy.openwebui_client import OpenWebUI, OpenWebUIError
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


def test_placebo_is_refused_with_a_way_out(tmp_path: Path) -> None:
    target = Target("http://127.0.0.1:9")
    with (
        pytest.raises(OpenWebUIError) as refused,
        openwebui_agent(target, tmp_path, None, [Arm.OFF, Arm.PLACEBO]),
    ):
        pass
    assert str(refused.value) == NO_PLACEBO and "--agent-url" in NO_PLACEBO
    assert not list(tmp_path.iterdir())


def test_secrets_stand_in_no_repr() -> None:
    target = Target("http://h", admin_email="a@b.example", password="fake-pw", token="fake-tok")
    assert "fake" not in repr(target)


PLUGIN = {
    "id": "lessons_filter",
    "is_active": True,
    "is_global": True,
    "meta": {"manifest": {"title": "Lessons Loop"}},
}
PLUGIN_PATH = "/api/v1/functions/id/lessons_filter"
READY: dict[str, Any] = {
    "/api/v1/functions/list": [PLUGIN],
    PLUGIN_PATH: PLUGIN | {"content": "x"},
    f"{PLUGIN_PATH}/valves": {},
    "/api/models": {"data": [{"id": "m", "info": {"meta": {"toolIds": ["run_sql"]}}}]},
    "/api/v1/tools/": [{"id": "run_sql"}],
}


@contextmanager
def answering(routes: dict[str, Any]) -> Iterator[OpenWebUI]:
    """Serve these answers by path; a pair is a status with its answer."""

    class Routes(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = routes.get(self.path.partition("?")[0], (404, {}))
            status, content = found if isinstance(found, tuple) else (200, found)
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Routes) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield OpenWebUI(f"http://127.0.0.1:{server.server_address[1]}", token="fake")
        finally:
            server.shutdown()
            thread.join()


def test_ready_server_is_chosen_with_the_models_own_tools() -> None:
    with answering(READY) as client:
        assert require_plugin(client) == "lessons_filter"
        assert choose(client, client, "lessons_filter", "", None) == CHOSEN
        assert choose(client, client, "lessons_filter", "m", ()).tools == ()


@pytest.mark.parametrize(
    ("path", "answer", "next_step"),
    [
        ("/api/v1/functions/list", [], "lessons install --url"),
        ("/api/v1/functions/list", [PLUGIN, PLUGIN | {"id": "copy"}], "delete all but one"),
        ("/api/v1/functions/list", [PLUGIN | {"is_active": False}], "switched off"),
        (f"{PLUGIN_PATH}/valves", {"recall_enabled": False}, "recall_enabled=true"),
        (f"{PLUGIN_PATH}/valves", {"top_k": 0}, "top_k"),
    ],
)
def test_plugin_that_gives_no_lessons_is_refused(path: str, answer: Any, next_step: str) -> None:
    with (
        answering(READY | {path: answer}) as client,
        pytest.raises(OpenWebUIError, match=next_step),
    ):
        require_plugin(client)


@pytest.mark.parametrize(
    ("path", "answer", "wanted", "next_step"),
    [
        ("/api/models", {"data": []}, "", "cannot see any model: make it public"),
        ("/api/models", {"data": [{"id": "a"}, {"id": "b"}]}, "", r"--agent-model NAME \(a, b\)"),
        ("/api/models", {"data": [{"id": "a"}]}, "m", r"has no model m \(a\)"),
        ("/api/v1/tools/", [], "m", "cannot use the tool run_sql: give them read access"),
        (PLUGIN_PATH, PLUGIN | {"is_global": False, "content": "x"}, "m", "not global and m"),
    ],
)
def test_what_the_accounts_lack_is_named(
    path: str, answer: Any, wanted: str, next_step: str
) -> None:
    with (
        answering(READY | {path: answer}) as client,
        pytest.raises(OpenWebUIError, match=next_step),
    ):
        choose(client, client, "lessons_filter", wanted, None)


def test_model_hidden_from_the_accounts_alone_is_told_apart() -> None:
    with (
        answering(READY) as admin,
        answering(READY | {"/api/models": {"data": []}}) as account,
        pytest.raises(OpenWebUIError, match="cannot see m: make it public"),
    ):
        choose(admin, account, "lessons_filter", "m", None)


@pytest.mark.parametrize(
    ("answer", "next_step"),
    [
        ((400, {"detail": "no"}), "wrong address or password"),
        ((403, {"detail": "prohibited"}), "ENABLE_PASSWORD_AUTH"),
        ((429, {"detail": "slow down"}), "wait three minutes"),
        ({"email": "a@b.example", "mfa_required": True}, "second factor"),
        ({"email": "other@b.example", "token": "t"}, "signs everybody in as other@b.example"),
        ((502, {}), "without a token"),
    ],
)
def test_refused_sign_in_names_the_next_step(answer: Any, next_step: str) -> None:
    with (
        answering({"/api/v1/auths/signin": answer}) as client,
        pytest.raises(OpenWebUIError, match=next_step),
    ):
        sign_in(client, "a@b.example", "obviously-fake")


def test_account_that_became_an_admin_is_refused(tmp_path: Path) -> None:
    known = {"id": "1", "email": "lessons-eval-off@lessons-loop.invalid", "role": "admin"}
    with (
        answering({"/api/v1/users/": {"users": [known], "total": 1}}) as client,
        pytest.raises(OpenWebUIError, match="has the role admin"),
    ):
        open_accounts(client, tmp_path, "lessons_filter")


def only(call: Callable[[], object]) -> str:
    with pytest.raises(OpenWebUIError) as raised:
        call()
    return str(raised.value)


def test_every_refusal_is_one_line() -> None:
    with answering({}) as client:
        told = [only(lambda: require_plugin(client))]
    with answering(READY | {"/api/models": {"data": []}}) as client:
        told.append(only(lambda: choose(client, client, "lessons_filter", "", None)))
    assert all("\n" not in line and "Traceback" not in line for line in told)
