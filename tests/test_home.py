from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lessons_loop.deploy.local.home import Home, held_home, kept_secret
from lessons_loop.deploy.processes import StartError
from support.processes import soon


def test_secret_is_made_once_and_private(tmp_path: Path) -> None:
    file = tmp_path / "admin-password"
    first = kept_secret(file, 12)
    assert kept_secret(file, 12) == first
    assert len(first) >= 12
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_empty_secret_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret-key").touch()
    with pytest.raises(StartError, match="secret-key is empty: delete it"):
        kept_secret(tmp_path / "secret-key", 32)


def test_second_run_on_a_folder_is_refused(tmp_path: Path) -> None:
    with held_home(Home(tmp_path / "data")) as home:
        home.note(url="http://127.0.0.1:1")
        with pytest.raises(StartError, match=r"in use by process \d+ \(http://127.0.0.1:1\)"):
            held_home(home).__enter__()


def test_folder_is_free_again_after_a_run(tmp_path: Path) -> None:
    for _ in range(2):
        with held_home(Home(tmp_path)):
            pass


KILLED = """
import os, signal, sys
from pathlib import Path
from lessons_loop.deploy.local.home import Home, held_home
from lessons_loop.deploy.processes import start
deaf = "import signal; signal.signal(15, signal.SIG_IGN); print('up', flush=True); signal.pause()"
with held_home(Home(Path(sys.argv[1]))) as home:
    log = home.root / "log"
    child = start("trial", [sys.executable, "-c", deaf], log, os.environ, home.root, home.kept)
    print(child.pid, flush=True)
    signal.pause()
"""


def test_folder_stays_taken_while_what_a_killed_run_started_lives(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        left = int(run.stdout.readline())
        assert soon(lambda: "up" in (tmp_path / "log").read_text())
        run.kill()
    with pytest.raises(StartError, match=r"in use by what the killed process \d+ started"):
        held_home(Home(tmp_path)).__enter__()
    os.kill(left, signal.SIGKILL)
    with held_home(Home(tmp_path)):
        pass


def test_file_in_the_folders_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(StartError, match="data cannot be used"):
        held_home(Home(tmp_path / "data")).__enter__()


def test_notes_are_merged(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.note(url="a", pid=1)
    home.note(url="b")
    assert home.notes() == {"url": "b", "pid": 1}


@pytest.mark.parametrize("content", ["", "[]", "{", "\x00"])
def test_damaged_notes_count_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "local.json").write_text(content)
    assert Home(tmp_path).notes() == {}
