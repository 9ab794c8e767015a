from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lessons_loop.deploy.doctor.findings import Finding, Level
from lessons_loop.deploy.doctor.look import Settings, diagnose
from lessons_loop.deploy.doctor.store import STATUS, read_status_child
from lessons_loop.filter.store import StorePaths, file_lock
from lessons_loop.promote.session import GateSettings, open_gate
from support.commands import run_here
from support.gate import candidate, stage
from support.judging import SOUND, EmbeddingServer
from support.llm_server import LlmServer, hangs, http_error, says
from support.web_host import PAGE, WebHost, json_answer


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, embedding: str) -> Path:
    folder = tmp_path_factory.mktemp("doctor") / "lessons"
    place = ["--store", str(folder), "--embedding", embedding]
    assert run_here("init", *place, "--domain", "sql").code == 0
    stage(StorePaths(folder), [candidate(SOUND)])
    assert run_here("promote", candidate(SOUND).lesson.key, *place, "--reason", "ok").code == 0
    return folder


@pytest.fixture
def store(tmp_path: Path, template: Path) -> Path:
    shutil.copytree(template, tmp_path / "lessons")
    return tmp_path / "lessons"


def found(store: Path | str, **more: str) -> dict[str, Finding]:
    """Return the worst finding of each check."""
    order = [Level.PROBLEM, Level.WARNING, Level.NOT_CHECKED, Level.OK]
    findings = diagnose(Settings(store=str(store), **more))  # type: ignore[arg-type]
    ranked = sorted(findings, key=lambda finding: -order.index(finding.level))
    return {finding.check: finding for finding in ranked}


def bad(findings: dict[str, Finding]) -> list[str]:
    return [name for name, finding in findings.items() if finding.level is Level.PROBLEM]


def test_sound_store_has_no_problem(store: Path, embedding: str) -> None:
    findings = found(store, embedding=embedding)
    assert bad(findings) == []
    assert findings["sql"].text.startswith("1 curated, all published")
    assert findings["embedding"].level is findings["ledger"].level is Level.OK


def test_missing_store_names_the_command(tmp_path: Path) -> None:
    findings = found(tmp_path / "no where")
    assert bad(findings) == ["store"]
    assert findings["store"].remedy == f"lessons init --store '{tmp_path}/no where'"
    assert not (tmp_path / "no where").exists()


def test_torn_published_file_names_publish(store: Path) -> None:
    (store / "published" / "sql.lessons").write_bytes(b"torn")
    findings = found(store)
    assert "store" in bad(findings) or "sql" in bad(findings)
    assert any("lessons publish" in finding.remedy for finding in findings.values())


def test_edited_ledger_is_a_problem(store: Path) -> None:
    ledger = store / "state" / "ledger.jsonl"
    ledger.write_text(ledger.read_text().replace('"reason": "', '"reason": "x', 1))
    assert "ledger" in bad(found(store))


def test_crash_marker_names_repair(store: Path) -> None:
    (store / "staging.open").touch()
    finding = found(store)["crash marker"]
    assert finding.level is Level.PROBLEM and finding.remedy.startswith("lessons repair")


def test_open_session_is_no_crash(store: Path) -> None:
    lock = (
        "import fcntl, sys, time; file = open(sys.argv[1], 'a'); fcntl.flock(file, 2);"
        "print(1, flush=True); time.sleep(600)"
    )
    (store / "staging.open").touch()
    with subprocess.Popen(
        [sys.executable, "-c", lock, str(store / "staging.lock")], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout and holder.stdout.readline()
        findings = found(store)
        holder.kill()
    assert findings["crash marker"].level is Level.OK
    assert findings["locks"].level is Level.WARNING and "staging.lock" in findings["locks"].text


def test_child_that_nobody_waits_for_ends_by_itself(store: Path) -> None:
    waits = [sys.executable, "-c", STATUS, "1", "repair", "--store", str(store)]
    with file_lock(StorePaths(store).staging_lock, 1):
        done = subprocess.run(waits, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "Timeout" in done.stderr


def test_code_in_the_current_folder_is_not_run(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(store)  # the plugin may write into it
    (store / "tempfile.py").write_text(f"open({str(store / 'run')!r}, 'w')\n")
    assert read_status_child(str(store), None, ["sql"])["domains"]
    assert not (store / "run").exists()


def test_gate_at_work_is_no_problem(store: Path) -> None:
    with open_gate(GateSettings(str(store), "sql")):
        findings = found(store)
    assert bad(findings) == []
    assert "gate.lock is held by" in findings["locks"].text
    assert findings["ledger"].level is Level.NOT_CHECKED


def test_domain_without_published_file_is_told(store: Path) -> None:
    assert run_here("init", "--store", str(store), "--domain", "kitchen").code == 0
    (store / "published" / "sql.lessons").unlink()
    findings = found(store)
    assert findings["sql"].remedy == "lessons publish --domain sql"
    assert findings["kitchen"].level is Level.OK


def test_paused_gate_and_lost_salt_are_told(store: Path) -> None:
    (store / "salt").unlink()
    (store / "state" / "paused").touch()
    findings = found(store)
    assert "restore it" in findings["salt"].remedy
    assert "salt" in bad(findings)
    assert any("paused" in finding.text for finding in findings.values())


def test_private_parts_read_by_others_are_told(store: Path) -> None:
    (store / "gate").chmod(0o755)
    finding = found(store)["permissions"]
    assert (finding.level, finding.remedy) == (Level.WARNING, f"chmod 700 {store / 'gate'}")


def test_other_embedder_names_re_embed(store: Path) -> None:  # T-07
    with EmbeddingServer(dimension=32) as other:
        finding = found(store, embedding=other.setting)["embedding"]
    assert finding.level is Level.PROBLEM and "32 dimensions" in finding.text
    assert finding.remedy.startswith("lessons reembed --store")


def test_doctor_changes_nothing(store: Path, embedding: str) -> None:
    before = {p: p.read_bytes() for p in store.rglob("*") if p.is_file()}
    found(store, embedding=embedding)
    assert {p: p.read_bytes() for p in store.rglob("*") if p.is_file()} == before


def test_everything_down_ends_in_bounded_time(store: Path) -> None:
    began = time.monotonic()
    with socket.socket() as silent, LlmServer([hangs(60)]) as model:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        dead = f"http://127.0.0.1:{silent.getsockname()[1]}"
        findings = found(
            store,
            embedding="openai:m@http://127.0.0.1:9/v1",
            url=dead,
            token="obviously-fake",
            llm_url=model.url,
            llm_model="m",
        )
    assert time.monotonic() - began < 200
    silent_ones = [findings[name].level for name in ("open webui", "review model")]
    assert "embedding" in bad(findings)  # a slow machine may leave the others unchecked
    assert set(silent_ones) <= {Level.PROBLEM, Level.NOT_CHECKED}


def test_web_page_is_no_open_webui() -> None:
    with WebHost({}, PAGE) as host:
        finding = found("", url=host.url)["open webui"]
    assert finding.level is Level.PROBLEM and "is no Open WebUI" in finding.text


def test_without_token_the_version_is_checked_only() -> None:
    with WebHost({"GET /api/version": json_answer({"version": "0.12.4"})}) as host:
        findings = found("", url=host.url)
    assert findings["open webui"].level is Level.OK
    assert findings["plugin"].level is Level.NOT_CHECKED


@pytest.mark.parametrize(
    ("step", "level"),
    [(says("OK"), Level.OK), (says(""), Level.WARNING), (http_error(500), Level.PROBLEM)],
)
def test_review_model_is_asked(step, level: Level) -> None:
    with LlmServer([step]) as server:
        finding = found("", llm_url=server.url, llm_model="m", llm_key="obviously-fake")[
            "review model"
        ]
    assert finding.level is level and "obviously-fake" not in finding.text


def test_command_exits_1_only_with_problems(store: Path, embedding: str) -> None:
    good = run_here("doctor", "--store", str(store), "--embedding", embedding, "--json")
    assert good.code == 0 and json.loads(good.out)["healthy"] is True
    (store / "gate.open").touch()
    worse = run_here("doctor", "--store", str(store), "--json")
    assert worse.code == 1 and json.loads(worse.out)["counts"]["problem"] == 1
    assert os.path.exists(store / "gate.open")
