from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lessons_loop.filter.published import read_published
from support.commands import run_here
from support.judging import EmbeddingServer

LESSONS = [sys.executable, "-m", "lessons_loop.deploy.cli"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion") / "lessons"
    with EmbeddingServer() as server:
        words = ["--store", str(folder), "--embedding", server.setting]
        assert run_here("init", *words, "--domain", "sql,openwebui", "--seeds").code == 0
    return folder


def completed(shell: str, line: str, **environ: str) -> str:
    """Return what the shell's completion script would be told for a line typed so far."""
    words = line.split(" ")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LESSONS_")}
    env = kept | environ | {"_LESSONS_COMPLETE": f"complete_{shell}"}
    env |= {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    env |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run(LESSONS, env=env, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.strip("\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_of_each_shell_is_printed(shell: str) -> None:
    env = os.environ | {"_LESSONS_COMPLETE": f"source_{shell}"}
    done = subprocess.run(LESSONS, env=env, capture_output=True, text=True, check=True)
    assert "lessons" in done.stdout and f"complete_{shell}" in done.stdout


def test_bash_completes_for_real(tmp_path: Path) -> None:
    program = tmp_path / "lessons"
    program.write_text(f'#!/bin/sh\nexec {" ".join(LESSONS)} "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(_LESSONS_COMPLETE=source_bash lessons)"; COMP_WORDS=(lessons can); COMP_CWORD=1;'
        '_lessons_completion lessons; echo "${COMPREPLY[@]}"'
    )
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "candidates"


def test_completion_is_offered_by_its_options() -> None:
    shown = run_here("--help").out
    assert "--install-completion" in shown and "--show-completion" in shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_complete(shell: str) -> None:
    assert "doctor" in completed(shell, "lessons do")


def test_domains_of_the_store_complete(store: Path) -> None:
    place = str(store)
    assert completed("bash", "lessons promote --domain ", LESSONS_STORE=place).split() == [
        "openwebui",
        "sql",
    ]
    line = f"lessons status --store {place} --domain sql,o"
    assert completed("bash", line).split() == ["sql,openwebui"]


def test_ids_complete_from_published_files(store: Path) -> None:
    shelf = read_published(store / "published" / "sql.lessons")
    assert shelf
    key = shelf.keys[0]
    found = completed("bash", f"lessons show {key[:5]}", LESSONS_STORE=str(store)).split()
    assert key[:12] in found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_no_lesson_text_reaches_the_shell(store: Path, shell: str) -> None:
    shown = completed(shell, "lessons show ", LESSONS_STORE=str(store))
    shelf = read_published(store / "published" / "sql.lessons")
    assert shelf and shown
    assert all(lesson.lesson.text[:20] not in shown for lesson in shelf.lessons)


@pytest.mark.parametrize("place", ["", "/nowhere", "http://127.0.0.1:9", "~nobody/x"])
def test_completing_without_a_store_is_silent(place: str) -> None:
    given = {"LESSONS_STORE": place}
    assert completed("bash", "lessons show ab", **given) == ""


def test_damaged_file_completes_nothing(tmp_path: Path) -> None:
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "sql.lessons").write_bytes(b"torn")
    assert completed("bash", "lessons show ", LESSONS_STORE=str(tmp_path)) == ""
