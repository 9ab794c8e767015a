"""`lessons eval lesson` on a real store, asking a served model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.cells import cell_len

from support.commands import run_here
from support.gate import flags
from support.proof_commands import call, everything, propose
from support.proving import (
    SECRET_QUESTION,
    bad,
    curated,
    following,
    good,
    lesson,
    question_files,
)


@pytest.fixture
def questions(tmp_path: Path) -> str:
    return str(question_files(tmp_path / "questions"))


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
