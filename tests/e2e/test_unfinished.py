"""A restart of Open WebUI loses no answer that waited to be learned from, and asks anew."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from threading import Event

import pytest

from lessons_loop.filter.attempts import attempts_file
from support.openwebui import PLUGIN, Server
from support.processes import soon
from support.provider import Json
from support.teaching import COUNT, TOOL_ID, distil_widgets

pytestmark = pytest.mark.timeout(600)
TAKEN_UP_SECONDS = 300.0
"""The 45 without a sign of life, two looks, and what a busy machine needs at most."""


def under_way(server: Server) -> int:
    """Return how many answers somebody still means to learn from."""
    with closing(sqlite3.connect(attempts_file(server.paths.root), timeout=10)) as found:
        return int(found.execute("select count(*) from unfinished").fetchone()[0])


def test_restart_loses_no_queued_answer(openwebui: Server) -> None:
    before, released = len(openwebui.staged()), Event()

    def slow(body: Json) -> str:
        released.wait(400)
        return distil_widgets(body)

    openwebui.provider.distiller = slow
    dora = openwebui.user("dora")
    asked = [openwebui.ask(f"{COUNT} shelf {n}", tool_ids=[TOOL_ID]) for n in range(4)]
    deleted = openwebui.ask(f"{COUNT} shelf 5", tool_ids=[TOOL_ID])
    openwebui.ask(f"{COUNT} shelf 6", tool_ids=[TOOL_ID], client=dora)
    assert soon(lambda: len(openwebui.provider.distills) == 2)  # the others wait
    assert soon(lambda: under_way(openwebui) == 6)
    openwebui.restart()
    released.set()
    openwebui.admin.ask("DELETE", f"/api/v1/chats/{deleted.chat_id}")
    dora.set_user_valves(PLUGIN, {"contribute": False})
    openwebui.ask("Are you back?")  # the first chat brings the plugin to work
    assert soon(lambda: not under_way(openwebui), TAKEN_UP_SECONDS, pause=2.0)
    staged = soon(
        lambda: len(found := openwebui.staged()[before:]) >= len(asked) and found, pause=3.0
    )
    assert len(staged) == len({one.message_ref for one in staged}) == len(asked)
    assert len({one.user_ref for one in staged}) == 1
    assert all(one.evidence.tools == ("count_widgets",) for one in staged)
    assert len(openwebui.provider.distills) == len(asked) + 2
