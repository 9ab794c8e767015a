"""`lessons eval run` that breaks off: outages, Ctrl-C, kill -9; it goes on to the same end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lessons_loop.eval.trials import Grade
from support.commands import run_here
from support.evaluating_runs import (
    QUESTIONS,
    agent_words,
    practice_model,
    question_folder,
    trials_in,
)


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with practice_model() as server:
        yield server.url


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return question_folder(tmp_path)


def test_model_that_goes_down_stops_the_run_and_it_goes_on(
    database: Path, questions: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    dead = agent_words("http://127.0.0.1:9/v1", database, questions, "--arms", "aa")
    done = run_here(*dead, "--runs", "2", "--out", str(out))
    assert done.code == 1
    assert "after 10 outages in a row" in done.err and f"--resume {out}" in done.err
    assert {t.grade for t in trials_in(out)} == {Grade.UNJUDGED}
    with practice_model() as server:
        valves = ["--tool-valves", json.dumps({"database": str(database)})]
        done = run_here("eval", "run", "--resume", str(out), "--agent-url", server.url, *valves)
    assert done.code == 0, done.err
    assert len(trials_in(out)) == 16 and Grade.UNJUDGED not in {t.grade for t in trials_in(out)}


def test_too_many_unjudged_end_with_an_error_behind_the_report(
    model: str, database: Path, tmp_path: Path
) -> None:  # T-37
    text = QUESTIONS + "- {id: tone, topic: t, question: Say hello., rubric: It is polite.}\n"
    folder = question_folder(tmp_path, text)
    words = agent_words(model, database, folder, "--arms", "off", "--runs", "1")
    words += ["--judge", "none", "--out", str(tmp_path / "run")]
    assert run_here(*words, "--max-unjudged", "0.2").code == 0
    done = run_here(*words, "--max-unjudged", "0.1")
    assert done.code == 1 and "1 of 5 answers are unjudged (0 by an outage)" in done.err
    assert "report.html" in done.out


def started(words: list[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "lessons_loop.deploy.cli", *words]
    env = {**os.environ, "NO_COLOR": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True)


def wait_for_trials(folder: Path, count: int) -> None:
    """Wait until so many trials are kept."""
    file, deadline = folder / "trials.jsonl", time.monotonic() + 120
    while time.monotonic() < deadline:
        if file.exists() and file.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.02)
    raise AssertionError("no trial came")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_stopped_run_goes_on_to_the_same_end(
    number: signal.Signals, model: str, database: Path, questions: Path, tmp_path: Path
) -> None:
    words = agent_words(model, database, questions, "--arms", "aa", "--runs", "20")
    calm, out = tmp_path / "calm", tmp_path / "run"
    assert run_here(*words, "--out", str(calm)).code == 0
    with started([*words, "--workers", "2", "--out", str(out)]) as child:
        wait_for_trials(out, 20)
        child.send_signal(number)
        _, err = child.communicate(timeout=60)
    if number is signal.SIGINT:
        assert child.returncode == 130
        last = err.strip().splitlines()[-1]
        assert f"go on with `lessons eval run --resume {out}`" in last
    kept = len(trials_in(out))
    assert 20 <= kept < 160
    valves = ["--tool-valves", json.dumps({"database": str(database)})]
    done = run_here("eval", "run", "--resume", str(out), *valves)
    assert done.code == 0, done.err
    assert f"{kept} answers kept already" in done.out
    assert trials_in(out) == trials_in(calm)
    done = run_here("eval", "run", "--replay", str(out), "--out", str(tmp_path / "again"))
    assert trials_in(tmp_path / "again") == trials_in(calm), done.err
