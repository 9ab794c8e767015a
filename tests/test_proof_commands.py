"""`lessons promote --proof` and `lessons eval lesson` on a real store, asking a served model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from lessons_loop.promote.runs.register import read_runs
from support.commands import Done, run_here
from support.gate import HashEmbedder, candidate, flags, gate, located, stage
from support.judging import EmbeddingServer
from support.llm_server import LlmServer, Received, http_error, send
from support.proving import (
    SECRET_QUESTION,
    THINGS,
    bad,
    curated,
    following,
    good,
    lesson,
    question_files,
)

EMBEDDER = HashEmbedder(256, "test")


@pytest.fixture(scope="module")
def embedding() -> Iterator[str]:
    with EmbeddingServer() as server:
        yield server.setting


@pytest.fixture
def questions(tmp_path: Path) -> str:
    return str(question_files(tmp_path / "questions"))


def propose(root: Path, *lessons: Any) -> list[str]:
    """Stage lessons as two users' chats showed them; return their keys."""
    for one in lessons:
        fields = {"trigger": one.lesson.trigger, "tags": ()}
        text = one.lesson.text
        rows = [
            candidate(text, message=f"{text}{n}", user=f"u-{n}", chat=f"{text}{n}", **fields)
            for n in range(2)
        ]
        stage(root, rows)
    return [one.key for one in lessons]


def call(
    monkeypatch: pytest.MonkeyPatch, server: LlmServer | None, root: Path, *words: str
) -> Done:
    """Run a command with the agent in the environment."""
    if server is not None:
        monkeypatch.setenv("LESSONS_EVAL_URL", server.url)
        monkeypatch.setenv("LESSONS_EVAL_MODEL", "some-model")
    return run_here(*words, *flags(root))


def everything(root: Path) -> str:
    """Return all a state directory holds as text."""
    files = (path for path in located(root).state.rglob("*") if path.is_file())
    return "".join(path.read_bytes().decode("utf-8", "replace") for path in files)


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


@pytest.fixture
def three(root: Path, embedding: str) -> list[str]:
    """Return the keys of a lesson that helps, one that harms, one nothing recalls."""
    unasked = curated(lesson("Rotate certificates by hand.", trigger="ingress", tags=()))
    keys = propose(root, good("pumps"), bad("motors"), unasked)
    done = run_here("promote", *keys, "--reason", "seen", "--embedding", embedding, *flags(root))
    assert done.code == 0, done.err
    return keys


def test_lessons_are_measured_stored_and_shown(
    root: Path,
    embedding: str,
    questions: str,
    three: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ["eval", "lesson", "--all", "--questions", questions, "--embedding", embedding]
    with following(unknown=["pumps"]) as server:
        dry = call(monkeypatch, server, root, *words, "--dry-run")
        assert "DRY RUN" in dry.out and "measured:" not in run_here("status", *flags(root)).out
        done = call(monkeypatch, server, root, *words)
    assert done.code == 0 and "helps 1" in done.out and "harmful 1" in done.out
    assert all(cell_len(line) <= 80 for line in done.out.splitlines())
    assert "measured: 1 harmful, 1 helps, 1 unmeasured" in run_here("status", *flags(root)).out
    shown = run_here("show", three[0], *flags(root)).out
    assert "measured:  helps: 100% with it, 0% without" in shown
    done = run_here("promote", "--unattended", "--embedding", embedding, *flags(root))
    assert "would hold" in done.out and "proof-harmful" in done.out  # nobody confirmed yet
    run_here("confirm", *flags(root))
    done = run_here("promote", "--unattended", "--embedding", embedding, *flags(root))
    assert done.code == 0 and "held as harmful 1" in done.out
    assert run_here("verify", *flags(root)).code == 0
    assert SECRET_QUESTION not in everything(root)


def test_named_lesson_alone_is_measured(
    root: Path,
    embedding: str,
    questions: str,
    three: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ["eval", "lesson", three[2][:12], "--questions", questions, "--embedding", embedding]
    with following() as server:
        done = call(monkeypatch, server, root, *words, "--json")
    told = json.loads(done.out)
    assert told["counts"] == {"unmeasured": 1}
    assert [one["key"] for one in told["lessons"]] == [three[2]]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ([], 2, "name lessons by id, or give --all"),
        (["--all", "abcdef"], 2, "name lessons by id, or give --all"),
        (["ffffff"], 1, "no curated lesson starts with ffffff"),
        (["abc"], 1, "too short"),
    ],
)
def test_wrong_names_are_told(
    root: Path,
    embedding: str,
    questions: str,
    three: list[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
    told: str,
) -> None:
    with following() as server:
        given = ["eval", "lesson", *words, "--questions", questions, "--embedding", embedding]
        done = call(monkeypatch, server, root, *given)
    assert done.code == code and told in " ".join(done.err.split())


def test_proof_survives_restore(
    root: Path,
    embedding: str,
    questions: str,
    three: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = ["eval", "lesson", three[0], "--questions", questions, "--embedding", embedding]
    with following(unknown=["pumps"]) as server:
        call(monkeypatch, server, root, *words)
    place = [*flags(root)]
    assert run_here("snapshot", "create", "--reason", "before", *place).code == 0
    assert run_here("demote", three[0], "--reason", "try without", *place).code == 0
    done = run_here("restore", "latest", "--reason", "back", "--embedding", embedding, *place)
    assert done.code == 0, done.err
    assert "measured:  helps" in run_here("show", three[0], *place).out
    assert run_here("verify", *place).code == 0
