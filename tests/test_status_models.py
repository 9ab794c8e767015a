"""What status says of the gate's models: there, silent, or another one than the store's."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lessons_loop.deploy.processes import free_port
from lessons_loop.deploy.status.models import CONNECT_SECONDS, listens, silent_models
from support.commands import run_here
from support.gate import candidate, flags, gate, promotion
from support.judging import EmbeddingServer
from support.processes import soon

SILENT = "http://user:obviously-fake@127.0.0.1:{}/v1"


def test_listener_is_found() -> None:
    with EmbeddingServer() as server:
        assert soon(lambda: list(silent_models({"LESSONS_EMBEDDING": server.setting})) == [])


@pytest.mark.parametrize("setting", ["", "sentence-transformers:some/model", "openai:m"])
def test_setting_without_an_address_says_nothing(setting: str) -> None:
    assert list(silent_models({"LESSONS_EMBEDDING": setting})) == []


def test_silent_addresses_are_named_without_secrets() -> None:
    url = SILENT.format(free_port())
    notes = list(silent_models({"LESSONS_EMBEDDING": f"openai:m@{url}", "LESSONS_LLM_URL": url}))
    assert [note.partition(":")[0] for note in notes] == ["LESSONS_EMBEDDING", "LESSONS_LLM_URL"]
    assert "obviously-fake" not in "".join(notes)


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://h:99999", "http://", "https://nowhere.invalid"]
)
def test_address_that_is_none_has_no_listener(url: str) -> None:
    assert not listens(url)


def test_address_nobody_routes_costs_little() -> None:
    began = time.monotonic()
    listens("http://192.0.2.1:9")
    assert time.monotonic() - began < CONNECT_SECONDS + 20


def test_status_tells_of_models(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gate(root) as session:
        session.apply(promotion(session, candidate()))
    with EmbeddingServer() as server:
        monkeypatch.setenv("LESSONS_EMBEDDING", server.setting)
        done = run_here("status", "--check", *flags(root))
        assert done.code == 1 and "lessons reembed --domain sql" in done.out
        # half a second is little on a busy machine
        assert soon(lambda: "nothing listens" not in run_here("status", *flags(root)).out)
    done = run_here("status", *flags(root))
    assert "nothing listens" in done.out
