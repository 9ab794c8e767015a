"""What keeps an Open WebUI from being asked: each refusal is one line with the next step."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from lessons_loop.deploy.evaluation.openwebui import NO_PLACEBO, Target, openwebui_agent
from lessons_loop.deploy.evaluation.openwebui_accounts import open_accounts, sign_in
from lessons_loop.deploy.evaluation.openwebui_checks import Chosen, choose, require_plugin
from lessons_loop.deploy.webui.client import OpenWebUI, OpenWebUIError
from lessons_loop.eval.trials import Arm

CHOSEN = Chosen("m", ("run_sql",))
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


def test_placebo_is_refused_with_a_way_out(tmp_path: Path) -> None:
    target = Target("http://127.0.0.1:9")
    with (
        pytest.raises(OpenWebUIError) as refused,
        openwebui_agent(target, tmp_path, None, [Arm.OFF, Arm.PLACEBO]),
    ):
        pass
    assert str(refused.value) == NO_PLACEBO and "--agent-url" in NO_PLACEBO
    assert not list(tmp_path.iterdir())


def test_unreachable_names_the_option_that_was_given(tmp_path: Path) -> None:
    with (
        pytest.raises(OpenWebUIError, match=r"correct --openwebui$"),
        openwebui_agent(Target("http://127.0.0.1:9"), tmp_path, None, [Arm.OFF]),
    ):
        pass
