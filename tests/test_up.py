"""What `lessons up` says once everything runs, and how it makes the store."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from lessons_loop.deploy.local.home import Home
from lessons_loop.deploy.local.installation import Options, Running
from lessons_loop.deploy.local.sources import LEXICAL, Embedding, Models, practice_models
from lessons_loop.deploy.local.store import init_command
from lessons_loop.deploy.local.up import asked_to_stop, fitted, welcome
from lessons_loop.deploy.webui.client import OpenWebUI
from lessons_loop.deploy.webui.server import ServerSettings
from support.shelf import put_published, shelf


def running(root: Path, models: Models) -> Running:
    store = root / "lessons"
    settings = ServerSettings(root, 9, "s", "obviously-fake", store, models.variables, {})
    return Running(Home(root), settings, OpenWebUI(settings.url), models, LEXICAL, [])


def test_seeds_are_left_out_without_an_embedding() -> None:
    command, said = init_command(Options(Path("x")), LEXICAL)
    assert "--seeds" not in command
    assert "need an embedding" in said


def test_seeds_are_loaded_with_an_embedding() -> None:
    command, said = init_command(Options(Path("x")), Embedding("openai:m@http://h/v1", {}, "m"))
    assert (command[-1], said) == ("--seeds", "seeds are loaded")


def test_seeded_practice_run_says_how_to_see_learning(tmp_path: Path) -> None:
    put_published(Home(tmp_path).store, shelf(), None)
    assert "--no-seeds" in welcome(running(tmp_path, practice_models(9)))
    assert "--no-seeds" not in welcome(running(tmp_path, Models("own", "http://h/v1")))


def test_empty_store_has_all_to_learn(tmp_path: Path) -> None:
    put_published(Home(tmp_path).store, (), None)
    assert "--no-seeds" not in welcome(running(tmp_path, practice_models(9)))


def test_welcome_fits_the_terminal_and_commands_stay_whole(tmp_path: Path) -> None:
    put_published(Home(tmp_path).store, shelf(), None)
    text = welcome(running(tmp_path, practice_models(9)))
    lines = fitted(text, 80).split("\n")
    long = [line.strip() for line in lines if len(line) > 80]
    assert all(" --" in line or "source " in line or "/" in line for line in long)
    commands = [line for line in text.split("\n") if " --" in line or "source " in line]
    assert len(commands) == 3 and set(commands) <= set(lines)
    assert "".join(" ".join(lines).split()) == "".join(text.split())


@pytest.mark.parametrize(("before", "stops"), [(signal.SIG_IGN, False), (signal.SIG_DFL, True)])
def test_closed_terminal_stops_all_but_what_runs_under_nohup(
    before: signal.Handlers, stops: bool
) -> None:
    earlier = signal.signal(signal.SIGHUP, before)
    try:
        with asked_to_stop() as stopped:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stopped.wait(20 if stops else 0) is stops
        assert signal.getsignal(signal.SIGHUP) is before
    finally:
        signal.signal(signal.SIGHUP, earlier)
