"""Where the store is, by valve and environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from lessons_loop.filter.place import store_folder, store_setting


@pytest.mark.parametrize(
    ("valve", "environment", "setting", "folder"),
    [
        ("", "", "", "lessons"),
        ("/a", "", "/a", "/a"),
        ("", "/b", "/b", "/b"),
        (" /a ", "/b", "/a", "/a"),
        ("http://chroma:8000", "/b", "http://chroma:8000", "lessons"),
        ("", "http://chroma:8000", "http://chroma:8000", "lessons"),
        ("/a", "http://chroma:8000", "/a", "/a"),
    ],
)
def test_valve_wins_and_a_server_spools_beside_the_data(
    monkeypatch, valve, environment, setting, folder
):
    monkeypatch.setenv("LESSONS_STORE", environment)
    assert store_setting(valve) == setting
    assert store_folder(valve) == Path(folder)
