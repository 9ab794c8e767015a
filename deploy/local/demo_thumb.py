"""The last chapter of `lessons demo`: a thumb under the answer reaches the lesson's counters."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from lessons_loop.deploy.webui.client import Json, OpenWebUI
from lessons_loop.filter.store import StorePaths

SPOOL_SECONDS = 60.0


class Rated(NamedTuple):
    """An answer that got a thumb."""

    chat: str
    message: str


def thumb_up(admin: OpenWebUI) -> Rated:
    """Rate the newest answer of the newest chat as a click on the page does."""
    chat = str(admin.ask("GET", "/api/v1/chats/?page=1")[0]["id"])
    stored = admin.stored_chat(chat)
    message = str(stored["chat"]["history"]["currentId"])
    answer: Json = stored["chat"]["history"]["messages"][message]
    form = {
        "type": "rating",
        "data": {"rating": 1, "model_id": answer.get("model")},
        "meta": {"arena": False, "chat_id": chat, "message_id": message},
        "snapshot": {"chat": stored},
    }
    admin.ask("POST", "/api/v1/evaluations/feedback", form)
    return Rated(chat, message)


def wait_until_moved(paths: StorePaths, wait: Callable[[float], None] = time.sleep) -> bool:
    """Wait until the thumb was noted and nothing waits for staging; say whether it came to that."""
    for _ in range(int(SPOOL_SECONDS)):
        if noted(paths) and not any(paths.spool.glob("*.json")):
            return True
        wait(1.0)
    return False


def noted(paths: StorePaths) -> bool:
    """Say whether the rating plugin has noted a thumb: it does so once the row is spooled."""
    if not paths.ratings.exists():
        return False
    try:
        with closing(sqlite3.connect(paths.ratings, timeout=5.0)) as found:
            return bool(found.execute("select 1 from ratings limit 1").fetchone())
    except sqlite3.Error:  # it is being made
        return False
