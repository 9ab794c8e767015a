from __future__ import annotations

import json
from pathlib import Path

import pytest
import requests

from lessons_loop.deploy.local.recorder import Endpoint, recording
from lessons_loop.deploy.processes import free_port
from lessons_loop.filter.errors import ModelError
from lessons_loop.filter.llm import HttpModel
from support.llm_server import LlmServer, breaks_off, http_error, says

KEY = "obviously-fake-key"
HELLO = [{"role": "user", "content": "hello"}]


def test_request_passes_with_the_key_and_is_written_without(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with LlmServer([says("fine")]) as server:
        with recording(Endpoint(server.url, "m", KEY), log) as door:
            assert HttpModel(door.url, "m").ask(HELLO).text == "fine"
        assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"
        assert server.requests[0].body["messages"] == HELLO
    (entry,) = [json.loads(line) for line in log.read_text().splitlines()]
    assert entry["role"] == "other" and entry["body"]["messages"] == HELLO
    assert KEY not in log.read_text()


def test_request_with_tools_is_a_chat(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with LlmServer([says("x")]) as server, recording(Endpoint(server.url, "m"), log) as door:
        body = {"messages": HELLO, "tools": [{}], "stream": True}
        assert requests.post(f"{door.url}/chat/completions", json=body, timeout=20).ok
    assert json.loads(log.read_text())["role"] == "chat"


def test_refusal_of_the_endpoint_comes_through(tmp_path: Path) -> None:
    with (
        LlmServer([http_error(401, "no such key")]) as server,
        recording(Endpoint(server.url, "m"), tmp_path / "log") as door,
        pytest.raises(ModelError, match="401: no such key"),
    ):
        HttpModel(door.url, "m").ask(HELLO)


@pytest.mark.parametrize("kind", ["dead", "broken"])
def test_failing_endpoint_is_an_error_not_a_hang(tmp_path: Path, kind: str) -> None:
    with LlmServer([breaks_off()]) as server:
        url = server.url if kind == "broken" else f"http://127.0.0.1:{free_port()}"
        with recording(Endpoint(url, "m"), tmp_path / "log") as door, pytest.raises(ModelError):
            HttpModel(door.url, "m", seconds=10).ask(HELLO)


def test_only_the_chosen_model_is_offered(tmp_path: Path) -> None:
    with recording(Endpoint("http://h", "chosen"), tmp_path / "log") as door:
        listed = requests.get(f"{door.url}/models", timeout=20).json()["data"]
        assert [card["id"] for card in listed] == ["chosen"]
        assert requests.post(f"{door.url}/embeddings", json={}, timeout=20).status_code == 404
        bad = requests.post(f"{door.url}/chat/completions", data=b"[", timeout=20)
        assert bad.status_code == 400


def test_address_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no http"), recording(Endpoint("x", "m"), tmp_path):
        pass


def test_endpoint_shows_no_key() -> None:
    endpoint = Endpoint("http://user:obviously-fake@h/v1?key=obviously-fake", "m", KEY)
    assert "obviously-fake" not in repr(endpoint) + endpoint.label
