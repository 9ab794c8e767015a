from __future__ import annotations

import logging
import time

import pytest

from lessons_loop.filter.errors import ModelError, UnreadableReply
from lessons_loop.filter.llm import ChatReply, HttpModel, reply_from_completion
from support.llm_server import (
    LlmServer,
    breaks_off,
    completion,
    dribbles,
    dribbles_headers,
    floods,
    hangs,
    http_error,
    redirects,
    refuses,
    says,
    sends,
)

ASKED = [{"role": "user", "content": "say it in JSON"}]
KEY = "sk-FAKE-key-of-a-test-0123456789"


def ask(server: LlmServer, model: str = "m", seconds: float = 20.0, url: str = "") -> ChatReply:
    return HttpModel(url or server.url, model, KEY, seconds, sleep=lambda _: None).ask(ASKED)


def test_reply_carries_text_and_finish() -> None:
    with LlmServer([says("NOTHING", "stop")]) as server:
        assert ask(server) == ChatReply("NOTHING", "stop")
        received = server.requests[0]
    assert received.path == "/v1/chat/completions"
    assert received.headers["Authorization"] == f"Bearer {KEY}"
    assert received.body["temperature"] <= 0.3


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/", "/v1/chat/completions"])
def test_base_address_is_completed(ending: str) -> None:
    with LlmServer([says("hello")]) as server:
        ask(server, url=f"http://127.0.0.1:{server.port}{ending}")
        assert server.requests[0].path == "/v1/chat/completions"


# T-22: what a server refuses is left out, asked again once, remembered
@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ("temperature", "Unsupported value: 'temperature' does not support 0.1"),
        ("max_tokens", "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
    ],
)
def test_refused_parameter_is_left_out(parameter: str, message: str) -> None:
    with LlmServer([refuses(parameter, message, says("hello"))]) as server:
        assert ask(server, model=f"picky-{parameter}").text == "hello"
        assert ask(server, model=f"picky-{parameter}").text == "hello"
        sent = [parameter in received.body for received in server.requests]
    assert sent == [True, False, False]


def test_several_refusals_still_answer() -> None:
    inner = refuses("temperature", "unsupported temperature", says("hello"))
    step = refuses("max_tokens", "unsupported max_tokens", inner)
    with LlmServer([step]) as server:
        assert ask(server, model="very-picky").text == "hello"
        assert server.requests[-1].body["max_completion_tokens"] > 0


def test_refusal_without_parameter_ends() -> None:
    with LlmServer([http_error(400, "the model is not for chat")]) as server:
        with pytest.raises(ModelError, match="HTTP 400: the model is not for chat"):
            ask(server)
        assert len(server.requests) == 1


# T-22, T-16: answers that are none
@pytest.mark.parametrize(
    ("body", "error", "words"),
    [
        ({"error": {"message": "flagged", "code": 502}}, ModelError, "flagged"),
        (b"<html>gateway</html>", UnreadableReply, "no JSON object"),
        (b"", UnreadableReply, "no JSON object"),
        ({"choices": []}, UnreadableReply, "no choices"),
        ({"choices": [None]}, UnreadableReply, "no choices"),
        (completion(None, "length", reasoning_content="deep"), UnreadableReply, "length"),
        (completion("", "stop", reasoning="..."), UnreadableReply, "finish_reason stop"),
        ({"choices": [{"message": {"role": "assistant"}}]}, UnreadableReply, "none"),
    ],
)
def test_answer_without_text_is_named(body: object, error: type[ModelError], words: str) -> None:
    with LlmServer([sends(body)]) as server, pytest.raises(error, match=words):
        ask(server)


def test_content_parts_are_joined() -> None:
    body = completion([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, 3])
    assert reply_from_completion(body).text == "ab"


def test_reasoning_is_never_the_answer() -> None:
    with pytest.raises(UnreadableReply, match="thinking"):
        reply_from_completion(completion(None, "stop", reasoning_content='{"lessons": [{}]}'))


def test_busy_server_is_asked_again() -> None:
    with LlmServer([http_error(429, Retry_After="2"), http_error(503), says("ok")]) as server:
        assert ask(server).text == "ok"
        assert len(server.requests) == 3


@pytest.mark.parametrize("status", [429, 503])
def test_busy_for_ever_is_given_up(status: int) -> None:
    with LlmServer([http_error(status)]) as server:
        with pytest.raises(ModelError, match=f"HTTP {status}"):
            ask(server)
        assert len(server.requests) == 3


@pytest.mark.parametrize("wait", ["3600", "-1", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_long_waits_are_not_waited(wait: str) -> None:
    with LlmServer([http_error(429, Retry_After=wait)]) as server:
        with pytest.raises(ModelError):
            ask(server)
        assert len(server.requests) == 1


@pytest.mark.parametrize("step", [hangs(100), dribbles(100), dribbles_headers(100)])
def test_slow_server_ends_in_time(step: object) -> None:
    with LlmServer([step]) as server:  # type: ignore[list-item]
        began = time.monotonic()
        with pytest.raises(ModelError, match="did not answer within"):
            ask(server, seconds=0.5)
    assert time.monotonic() - began < 60


def test_flood_is_cut() -> None:
    with LlmServer([floods(3_000_000)]) as server, pytest.raises(UnreadableReply, match="2000000"):
        ask(server)


def test_broken_body_is_an_error() -> None:
    with LlmServer([breaks_off()]) as server, pytest.raises(ModelError):
        ask(server)


def test_dead_server_is_one_line() -> None:
    with LlmServer([says("x")]) as server:
        url = server.url
    with pytest.raises(ModelError, match="cannot be reached") as caught:
        HttpModel(url, "m", KEY, 20.0).ask(ASKED)
    assert "\n" not in str(caught.value)


def test_key_follows_no_redirect() -> None:
    with LlmServer([says("stolen")]) as thief:
        script = [redirects(f"{thief.url}/chat/completions")]
        with LlmServer(script) as server, pytest.raises(ModelError, match="redirects"):
            ask(server)
        assert thief.requests == []


# T-47
def test_key_never_shows(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="lessons_loop")
    with LlmServer([http_error(401, f"bad key {KEY}")]) as server:
        model = HttpModel(server.url, "m", KEY, 20.0)
        with pytest.raises(ModelError) as caught:
            model.ask(ASKED)
    shown = f"{caught.value} {caught.value!r} {model!r} {caplog.text}"
    assert KEY not in shown
    assert "[key]" in shown


def test_address_password_never_shows() -> None:
    with LlmServer([http_error(401), says("x")]) as server:
        url = f"http://somebody:FAKE-pass@127.0.0.1:{server.port}/v1?key=FAKE-query"
        model = HttpModel(url, "m", "", 20.0)
        with pytest.raises(ModelError) as caught:
            model.ask(ASKED)
        assert server.requests[0].headers["Authorization"].startswith("Basic ")
    shown = f"{caught.value} {model!r}"
    assert "FAKE" not in shown
    assert "somebody" not in shown


def test_lone_surrogate_is_sent() -> None:  # T-26
    with LlmServer([says("fine \ud83d\ude00")]) as server:
        asked = [{"role": "user", "content": "half \udc8f emoji"}]
        assert HttpModel(server.url, "m", "", 20.0).ask(asked).text == "fine 😀"
