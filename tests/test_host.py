"""Where the store is, by valve and environment; what Open WebUI's database tells, and when not."""

from __future__ import annotations

import os
import subprocess
import sys
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


WISHES = """
import asyncio, logging, sys, types
sys.modules["open_webui.main"] = types.ModuleType("open_webui.main")
from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.host import HostAnswers
try:
    print("found", asyncio.run(HostAnswers().own_valves("lessons", "user-1")))
except StoreError as error:
    print("refused", error)
"""


def test_wish_that_cannot_be_read_is_no_consent(tmp_path):  # T-45
    gone = {"DATA_DIR": str(tmp_path / "gone"), "WEBUI_SECRET_KEY": "fake"}
    told = subprocess.run(
        [sys.executable, "-c", WISHES],
        cwd=tmp_path,
        env=os.environ | gone,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert told.stdout.splitlines()[-1] == "refused a user's own valves cannot be read"
