"""`lessons promote --proof` on a real store, asking a served model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lessons_loop.promote.runs.register import read_runs
from support.commands import run_here
from support.gate import HashEmbedder, flags, gate, located
from support.llm_server import LlmServer, Received, http_error, send
from support.proof_commands import call, everything, propose
from support.proving import (
    SECRET_QUESTION,
    THINGS,
    bad,
    following,
    good,
    question_files,
)

EMBEDDER = HashEmbedder(256, "test")


@pytest.fixture
def questions(tmp_path: Path) -> str:
    return str(question_files(tmp_path / "questions"))


def repeating(handler: Any, received: Received) -> None:
    """Refuse a request in words that repeat what was asked."""
    told = f"no room for {received.body['messages'][-1]['content']}"
    send(handler, json.dumps({"error": {"message": told}}).encode(), status=400)


def curated_keys(root: Path) -> set[str]:
    with gate(root, None) as session:
        return set(session.curated)


def test_good_batch_goes_in_and_harmful_one_is_held(
    root: Path, embedding: str, questions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["promote", "--auto", "--proof", questions, "--embedding", embedding]
    with following(0.1, unknown=["pumps"]) as server:
        (pumps,) = propose(root, good("pumps"))
        done = call(monkeypatch, server, root, *words)
        assert done.code == 0 and "proof:     passed: " in done.out
        valves, motors = propose(root, good("valves"), bad("motors"))
        done = call(monkeypatch, server, root, *words)
    assert done.code == 3 and "not passed, the batch is held" in done.out
    assert "motors-north" in done.out and SECRET_QUESTION not in done.out + done.err
    with gate(root, HashEmbedder(256, "test")) as session:
        assert set(session.curated) == {pumps}
        assert {row.lesson.key for row in session.held()} == {valves, motors}
        assert all("motors-north" in row.reason for row in session.held())
    line = read_runs(located(root).state)[-1]
    assert line.proof["passed"] is False and "motors-north" in line.proof["broken"]
    assert SECRET_QUESTION not in everything(root)


@pytest.mark.parametrize("trouble", ["no agent", "outage", "no questions"])
def test_no_proof_no_promotion(
    root: Path, embedding: str, questions: str, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    run_here("init", *flags(root), "--domain", "sql")
    propose(root, good("pumps"))
    given = questions if trouble != "no questions" else "nowhere"
    words = ["promote", "--auto", "--proof", given, "--embedding", embedding]
    with LlmServer([http_error(400)]) as server:
        done = call(monkeypatch, None if trouble == "no agent" else server, root, *words)
    assert done.code == 1 and done.err.splitlines()[-1].startswith("lessons: ")
    with gate(root) as session:
        assert not session.curated and not session.archive and len(session.candidates()) == 2
    assert read_runs(located(root).state)[-1].error


@pytest.mark.parametrize("words", [["--auto"], ["abc123", "--reason", "seen"]])
def test_empty_name_of_questions_is_no_run_without_proof(root: Path, words: list[str]) -> None:
    propose(root, good("pumps"))
    done = run_here("promote", *words, "--proof", " ", *flags(root))
    assert done.code == 2 and "--proof names no questions" in done.err
    assert not list(located(root).state.rglob("ledger.jsonl"))


def test_server_that_repeats_questions_writes_none_into_the_state(
    root: Path, embedding: str, questions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_here("init", *flags(root), "--domain", "sql")
    propose(root, good("pumps"))
    words = ["promote", "--auto", "--proof", questions, "--embedding", embedding]
    with LlmServer([repeating]) as server:
        done = call(monkeypatch, server, root, *words)
    assert done.code == 1 and "answered HTTP 400: no room for" in done.err
    assert SECRET_QUESTION not in done.err and "lifted by pumps north" not in done.err
    assert not any(f"{asked} north" in everything(root) for asked in THINGS.values())
    assert "no room for" in read_runs(located(root).state)[-1].error


def test_unattended_job_listens_too(
    root: Path, embedding: str, questions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["promote", "--auto", "--unattended", "--proof", questions, "--embedding", embedding]
    propose(root, bad("motors"))
    with following() as server:
        assert call(monkeypatch, server, root, *words, "--json").code == 0  # a preview
        with gate(root) as session:
            assert len(session.candidates()) == 2
        assert not (located(root).state / "eval").exists()
        assert run_here("confirm", *flags(root)).code == 0
        done = call(monkeypatch, server, root, *words, "--json")
    told = json.loads(done.out)
    assert done.code == 0 and told["proof"]["passed"] is False
    assert [one["rule"] for one in told["verdicts"]] == ["proof"]


def test_preview_tells_the_proof_and_writes_nothing(
    root: Path, embedding: str, questions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    propose(root, bad("motors"))
    with following() as server:
        done = call(
            monkeypatch, server, root, "promote", "--proof", questions, "--embedding", embedding
        )
    assert done.code == 0 and "not passed, the batch is held" in done.out
    with gate(root) as session:
        assert len(session.candidates()) == 2 and not session.archive


def test_rules_alone_ask_no_model(
    root: Path, embedding: str, questions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_here("init", *flags(root), "--domain", "sql")
    run_here("confirm", *flags(root))
    propose(root, good("pumps"))
    words = ["promote", "--unattended", "--proof", questions, "--embedding", embedding]
    with following() as server:
        done = call(monkeypatch, server, root, *words)
        assert done.code == 0 and server.requests == []
    assert "no lesson is new: nothing had to be proven" in " ".join(done.out.split())


@pytest.mark.parametrize("harm", [False, True])
def test_promotion_by_id_is_proven(
    root: Path, embedding: str, questions: str, monkeypatch: pytest.MonkeyPatch, harm: bool
) -> None:
    (key,) = propose(root, bad("motors") if harm else good("motors"))
    words = ["promote", key[:12], "--reason", "seen", "--proof", questions]
    with following() as server:
        dry = call(monkeypatch, server, root, *words, "--embedding", embedding, "--dry-run")
        done = call(monkeypatch, server, root, *words, "--embedding", embedding)
    assert (dry.code, done.code) == (0, 0)
    with gate(root, HashEmbedder(256, "test")) as session:
        assert (key in session.curated) is not harm
        assert [row.reason[:7] for row in session.held()] == (["proof: "] if harm else [])
        assert session.ledger.verify() == []


def test_paused_gate_proves_nothing(
    root: Path, embedding: str, questions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_here("init", *flags(root), "--domain", "sql")
    (key,) = propose(root, good("pumps"))
    assert run_here("pause", "--reason", "audit", *flags(root)).code == 0
    with following() as server:
        for words in (
            ["promote", "--auto", "--proof", questions],
            ["promote", key, "--reason", "x", "--proof", questions],
            ["eval", "lesson", "--all", "--questions", questions],
        ):
            call(monkeypatch, server, root, *words, "--embedding", embedding)
        assert server.requests == []
