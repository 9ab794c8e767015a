"""A restart of Open WebUI loses no answer that waited to be learned from."""

from __future__ import annotations

from threading import Event

import pytest

from support.openwebui import Server, eventually
from support.provider import Json
from support.teaching import COUNT, TOOL_ID, distil_widgets

pytestmark = pytest.mark.timeout(600)
TAKEN_UP_SECONDS = 150.0
"""The 45 without a sign of life, two looks, and what a busy machine needs."""


def test_restart_loses_no_queued_answer(openwebui: Server) -> None:
    before, released = len(openwebui.staged()), Event()

    def slow(body: Json) -> str:
        released.wait(120)
        return distil_widgets(body)

    openwebui.provider.distiller = slow
    asked = [openwebui.ask(f"{COUNT} shelf {n}", tool_ids=[TOOL_ID]) for n in range(4)]
    assert eventually(lambda: len(openwebui.provider.distills) == 2)  # the others wait
    openwebui.restart()
    released.set()
    openwebui.ask("Are you back?")  # the first chat brings the plugin to work
    staged = eventually(
        lambda: len(found := openwebui.staged()[before:]) >= len(asked) and found,
        TAKEN_UP_SECONDS,
        pause=3.0,
    )
    assert len(staged) == len({one.message_ref for one in staged}) == len(asked)
    assert len({one.user_ref for one in staged}) == 1
    assert len(openwebui.provider.distills) == len(asked) + 2
