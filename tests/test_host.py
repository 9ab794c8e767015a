"""Where the store is, by valve and environment; what Open WebUI's database tells, and when not."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from lessons_loop.filter.errors import ModelError
from lessons_loop.filter.host import ask_host_model
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
        timeout=250,
    )
    assert told.stdout.splitlines()[-1] == "refused a user's own valves cannot be read"


async def nobody(_identity):
    return None


async def gives_up(*_, **__):
    own = asyncio.create_task(asyncio.sleep(60))
    own.cancel()
    await own


async def thinks(*_, **__):
    await asyncio.sleep(60)


def asked(monkeypatch, model):
    """Return the question to a model of Open WebUI's own that does this."""
    users = SimpleNamespace(Users=SimpleNamespace(get_user_by_id=nobody))
    parts = {"main": None, "models.users": users}
    parts["utils.chat"] = SimpleNamespace(generate_chat_completion=model)
    for name, part in parts.items():
        monkeypatch.setitem(sys.modules, f"open_webui.{name}", part)
    return ask_host_model(None, "m", "user-1", [{"role": "user", "content": "what?"}])


def test_model_that_cancels_its_own_work_has_failed(monkeypatch):  # T-25
    with pytest.raises(ModelError, match="m gave up"):
        asyncio.run(asked(monkeypatch, gives_up))


def test_question_the_server_cancels_is_cancelled(monkeypatch):
    async def scene():
        task = asyncio.create_task(asked(monkeypatch, thinks))
        await asyncio.sleep(0.05)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(scene())
