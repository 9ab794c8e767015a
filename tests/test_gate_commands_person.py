"""The gate's commands with a person: at a real terminal, interrupted, its terminal closed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands_here import command_here
from support.gate import candidate, on_folder, stage
from support.gate_words import SCRIPT, filled, one_line
from support.judging import (
    OTHER,
    ROOT,
    SOUND,
    at_terminal,
    run_command,
    sightings,
)
from support.llm_server import LlmServer, hangs
from support.processes import soon


@pytest.fixture
def env(root: Path, embedding: str) -> dict[str, str]:
    return filled(root, embedding)


@on_folder
def test_human_review_without_terminal_ends_at_once(env: dict[str, str]) -> None:  # T-33
    done = run_command("promote", "--review", "human", env=env)
    assert done.returncode == 1 and one_line(done.stderr) and "needs a terminal" in done.stderr
    assert done.stdout == ""


@on_folder
def test_held_lessons_are_named_in_the_summary(env: dict[str, str], root: Path) -> None:
    stage(root, sightings(OTHER, 1))
    command_here("promote", "--auto", env=env)
    code, seen = at_terminal("promote", "--review", "human", env=env, keys=["y\r", "good\r"])
    assert code == 0 and ": 1 held lesson\r\npromoted 1" in seen


def interrupted(process: subprocess.Popen[str]) -> str:
    """Press Ctrl-C, again after 5 s as a person would; return stderr."""
    for _ in range(4):
        process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=5)[1]
        except subprocess.TimeoutExpired:
            continue
    return process.communicate(timeout=120)[1]


@on_folder
@pytest.mark.parametrize("start", [("-m", "lessons_loop.deploy.cli", "promote"), (SCRIPT,)])
def test_interrupted_review_decides_nothing(env: dict[str, str], start: tuple[str, ...]) -> None:
    with LlmServer([hangs(200)]) as server:
        model = ("--review", "llm", "--llm-url", server.url, "--llm-model", "m")
        process = subprocess.Popen(
            [sys.executable, *start, *model], env=env, cwd=ROOT, stderr=subprocess.PIPE, text=True
        )
        assert soon(lambda: server.requests, 150)
        errors = interrupted(process)
    assert process.returncode == 130 and "Traceback" not in errors
    listed = json.loads(command_here("candidates", "--json", env=env).stdout)
    assert SOUND in [row["text"] for row in listed["candidates"]]


@on_folder
def test_closed_terminal_leaves_no_copy_of_the_store(env: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    with LlmServer([hangs(200)]) as server:
        model = ("--dry-run", "--review", "llm", "--llm-url", server.url, "--llm-model", "m")
        command = [sys.executable, "-m", "lessons_loop.deploy.cli", "promote", *model]
        process = subprocess.Popen(
            command, env=env | {"TMPDIR": str(folder)}, stderr=subprocess.PIPE, text=True
        )
        assert soon(lambda: server.requests, 150)
        assert list(folder.glob("lessons-dry-run-*"))
        for _ in range(2):  # a shell tells its jobs, the kernel its terminal's
            process.send_signal(signal.SIGHUP)
        errors = process.communicate(timeout=120)[1]
    assert (process.returncode, list(folder.iterdir())) == (129, [])
    assert "Traceback" not in errors


def test_person_promotes_skips_and_rejects(env: dict[str, str], root: Path) -> None:
    stage(root, sightings(OTHER, 1))
    keys = ["y\r", "\r", "checked by hand\r", "n\r", "wrong table\r"]
    code, seen = at_terminal("promote", "--review", "human", env=env, keys=keys)
    assert code == 0 and "a reason is required" in seen
    assert "promoted 1" in seen and "rejected 2" in seen  # one by rule, one by the person


@on_folder
def test_quitting_keeps_decisions(env: dict[str, str], root: Path) -> None:
    stage(root, sightings(OTHER, 1))
    keys = ["y\r", "good\r", "q\r"]
    code, seen = at_terminal("promote", "--review", "human", env=env, keys=keys)
    assert code == 3 and "promoted 1" in seen  # one lesson still waits
    assert (
        json.loads(command_here("show", candidate(SOUND).lesson.key, "--json", env=env).stdout)[
            "status"
        ]
        == "curated"
    )


@on_folder
@pytest.mark.parametrize(("key", "code"), [("\x03", 130), ("\x04", 3)])
def test_interrupt_keeps_decisions(
    env: dict[str, str], root: Path, key: str, code: int
) -> None:  # T-33
    stage(root, sightings(OTHER, 1))
    left, seen = at_terminal("promote", "--review", "human", env=env, keys=["y\r", "good\r", key])
    assert left == code and "decisions already made are kept" in seen and "Traceback" not in seen
    listed = json.loads(command_here("candidates", "--json", env=env).stdout)
    left_over = {row["text"] for row in listed["candidates"]}
    assert OTHER in left_over and SOUND not in left_over


@on_folder
def test_person_edits_line_by_line(env: dict[str, str]) -> None:
    bare = {name: value for name, value in env.items() if name not in ("EDITOR", "VISUAL")}
    keys = ["e\r", "Read serial_key in equipment_machine.\r", "\r", "\r", "y\r", "clearer\r"]
    code, seen = at_terminal("promote", "--review", "human", env=bare, keys=keys)
    assert code == 0 and "promoted 1" in seen
    assert "Read serial_key in equipment_machine." in seen
