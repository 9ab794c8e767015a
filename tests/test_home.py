from __future__ import annotations

import stat
from pathlib import Path

import pytest

from lessons_loop.deploy.local.home import Home, held_home, kept_secret
from lessons_loop.deploy.processes import StartError


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
