from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from lessons_loop.deploy.doctor.findings import Finding, Level
from lessons_loop.deploy.doctor.look import Settings, diagnose
from lessons_loop.deploy.doctor.proxy import same_store, shown_store
from lessons_loop.deploy.doctor.store import read_status_child
from lessons_loop.filter.errors import StoreError
from lessons_loop.promote.session import GateSettings, open_gate
from support.chroma_server import ChromaServer, fresh_url
from support.commands import run_here
from support.judging import EmbeddingServer
from support.web_host import PAGE, WebHost


def found(url: str, state: Path, **more: Any) -> dict[str, list[Finding]]:
    checks: dict[str, list[Finding]] = {}
    for finding in diagnose(Settings(store=url, state=state, **more)):
        checks.setdefault(finding.check, []).append(finding)
    return checks


def problems(checks: dict[str, list[Finding]]) -> list[Finding]:
    return [one for several in checks.values() for one in several if one.level is Level.PROBLEM]


def test_sound_server_store_has_no_problem(store_url: str, tmp_path: Path) -> None:
    with EmbeddingServer() as embedding:
        place = ["--store", store_url, "--state-dir", str(tmp_path), "--domain", "sql"]
        model = ["--embedding", embedding.setting]
        assert run_here("init", *place, *model, "--seeds").code == 0
        checks = found(store_url, tmp_path, embedding=embedding.setting)
    assert problems(checks) == []
    assert checks["databases"][0].text == "curated, staging, gate are there"
    assert checks["sql"][0].text.startswith("33 curated")
    assert "the same model" in checks["embedding"][0].text
    assert checks["spool"][0].level is Level.NOT_CHECKED


def test_empty_server_names_init(store_url: str, tmp_path: Path) -> None:
    checks = found(store_url, tmp_path)
    assert checks["server"][0].level is Level.OK
    missing = [one for one in checks["databases"] if one.level is Level.PROBLEM]
    assert missing and all(one.remedy.startswith("lessons init --store") for one in missing)


def test_missing_collection_is_named(store_url: str, tmp_path: Path) -> None:
    from contextlib import closing

    from lessons_loop.filter.server import open_server, parse_server

    place = ["--store", store_url, "--state-dir", str(tmp_path)]
    assert run_here("init", *place, "--domain", "sql").code == 0
    client: Any = open_server(parse_server(store_url), "staging")
    with closing(client):
        client.delete_collection("sql-lessons-events")
    told = [one.text for one in found(store_url, tmp_path)["sql"]]
    assert any("staging/sql-lessons-events" in text for text in told)


def test_gate_at_work_is_no_problem(store_url: str, tmp_path: Path) -> None:
    place = ["--store", store_url, "--state-dir", str(tmp_path)]
    assert run_here("init", *place, "--domain", "sql").code == 0
    with open_gate(GateSettings(store_url, "sql", tmp_path)):
        checks = found(store_url, tmp_path)
    assert problems(checks) == []
    assert "sql-lock is held by" in checks["locks"][0].text


def test_state_dir_is_asked_for(store_url: str, tmp_path: Path) -> None:
    place = ["--store", store_url, "--state-dir", str(tmp_path)]
    assert run_here("init", *place, "--domain", "sql").code == 0
    checks = {one.check: one for one in diagnose(Settings(store=store_url))}
    assert "--state-dir" in checks["lessons"].text


@pytest.mark.parametrize("frozen", [False, True])
def test_dead_or_frozen_server_is_told_in_time(tmp_path: Path, frozen: bool) -> None:
    with ChromaServer(tmp_path / "chroma") as server:
        url = fresh_url(server)
        (server.freeze if frozen else server.kill)()
        began = time.monotonic()
        checks = found(url, tmp_path / "state")
        assert time.monotonic() - began < 200
        if frozen:
            server.thaw()
    assert checks["store"][0].level is Level.PROBLEM
    told = "does not answer" if frozen else "cannot be reached"
    assert told in checks["store"][0].text


def test_web_page_is_no_chroma_server(tmp_path: Path) -> None:
    with WebHost({}, PAGE) as host:
        checks = found(host.url, tmp_path)
    assert "is no Chroma server" in checks["store"][0].text


def test_password_in_an_address_is_shown_nowhere(tmp_path: Path) -> None:  # T-47
    address = "http://user:obviously/fake@h"
    checks = found(address, tmp_path)
    assert problems(checks) and "obviously" not in str(checks)
    with pytest.raises(StoreError, match="chroma_token"):  # before a child shows it to everybody
        read_status_child(address, tmp_path, ())
    assert "obviously" not in shown_store(address)


def test_two_forms_of_an_address_are_one_store() -> None:
    assert same_store("HTTP://Chroma.example:80/", "http://chroma.example")
    assert not same_store("http://h?tenant=abc", "http://h")
    assert not same_store("http://h", "/srv/lessons")
