"""A real Open WebUI with three workers, and what tests ask of one worker or of all of them.

for pid, client in workers.each().items():
    assert workers.told(client, question).worker == pid
"""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import requests

from lessons_loop.deploy.bench.lessons import DOMAIN
from lessons_loop.deploy.bench.load_stack import VALVES, WITH, LoadStack
from lessons_loop.deploy.bench.load_users import counted_crates
from lessons_loop.deploy.webui.client import OpenWebUI
from lessons_loop.deploy.webui.plugin_file import PLUGIN_ID, plugin_source
from lessons_loop.filter.inject import reference
from lessons_loop.filter.store import collection_names
from lessons_loop.filter.text import digest
from support.chroma_server import rows_of
from support.openwebui import PATIENT
from support.processes import soon

_TOLD = re.compile(r"lessons=(\S*) worker=(\d+)")
REFRESH_SECONDS = 90.0
"""The timer's ten, and what a busy machine needs at most."""
TAKEN_UP_SECONDS = 300.0
"""The 45 without a sign of life, two looks, and what a busy machine needs at most."""
SAID = "There are 1204 crates, counted in load_ledger. " * 8


class Told(NamedTuple):
    """What the model was given with a question, and by which worker."""

    lessons: tuple[str, ...]
    worker: int


class Workers:
    """The stack as tests use it."""

    def __init__(self, stack: LoadStack) -> None:
        self.stack = stack

    @property
    def spool(self) -> Path:
        """Where records wait."""
        return self.stack.settings.data / "lessons" / "spool"

    def restore(self) -> None:
        """Bring back all parts and workers, the shipped plugin and its usual valves.

        What workers killed by earlier tests were about to learn is taken up before.
        """
        for part in ("chroma", "proxy"):
            if self.stack.running[part].ended() is not None:
                self.stack.begin(part)
                self.stack.wait_for(part)
        self.pace(0.0)
        self.install(plugin_source())
        self.set_valves()
        self.each()
        soon(lambda: not self.under_way(), TAKEN_UP_SECONDS)

    def each(self) -> dict[int, OpenWebUI]:
        """Return a client per worker, each on a connection of its own."""
        return self.stack.each_worker()

    def set_valves(self, **valves: object) -> None:
        """Set the plugin's valves, the usual ones where nothing is said; one worker is told."""
        self.stack.admin.set_valves("functions", PLUGIN_ID, {**VALVES, **PATIENT, **valves})

    def install(self, source: str) -> None:
        """Store the plugin's source; one worker is told."""
        self.stack.admin.store_function(PLUGIN_ID, "Lessons", source)

    def told(self, client: OpenWebUI, text: str) -> Told:
        """Ask in a chat with the plugin; return what the model was given."""
        messages = [{"role": "user", "content": text}]
        body = {"model": WITH, "messages": messages, "stream": True}
        answer = client.send("POST", "/api/chat/completions", body)
        assert answer.status_code == 200, answer.text[:300]
        found = _TOLD.search(answer.text)
        assert found, answer.text[:300]
        return Told(tuple(filter(None, found[1].split(","))), int(found[2]))

    def newest(self) -> tuple[str, str]:
        """Return a question about the newest lesson, and that lesson's reference."""
        lesson = self.stack.words[-1].lesson()
        return f"What about {lesson.trigger}?", reference(lesson.key)

    def all_told(self, wanted: str, seconds: float = REFRESH_SECONDS) -> None:
        """Wait until every worker gives the model this lesson (nothing where it is empty)."""
        text, _ = self.newest()

        def everywhere() -> bool:
            told = [(pid, self.told(client, text)) for pid, client in self.each().items()]
            if any(pid != one.worker for pid, one in told):
                return False  # a connection had ended
            return all((wanted in one.lessons) if wanted else not one.lessons for _, one in told)

        assert soon(everywhere, seconds)

    def saved_chat(self) -> str:
        """Make a chat of the admin's; return its id."""
        made = self.stack.admin.ask("POST", "/api/v1/chats/new", {"chat": {"title": "crates"}})
        return str(made["id"])

    def finish(self, client: OpenWebUI, chat: str, message: str) -> None:
        """Tell a worker that an answer is finished, as an old client does once more."""
        question = {"role": "user", "content": "Please count the crates."}  # the call tells where
        answer = {"id": message, "role": "assistant", "content": SAID, "finish_reason": "stop"}
        body = {
            "model": WITH,
            "messages": [question, *counted_crates()[1:], answer],
            "chat_id": chat,
            "session_id": "none",
            "id": message,
        }
        client.ask("POST", "/api/chat/completed", body)

    def pace(self, distill: float) -> None:
        """Change how long the model takes to distill."""
        requests.post(f"{self.stack.url('provider')}/pace", json={"distill": distill}, timeout=60)

    def distills(self, what: str = "distill begun") -> int:
        """Return how often the model was asked to distill."""
        counts: dict[str, Any] = requests.get(
            f"{self.stack.url('provider')}/counts", timeout=10
        ).json()
        return int(counts.get(what, 0))

    def distilled_today(self) -> int:
        """Return how many attempts the workers' register counts today."""
        register = self.stack.settings.data / "lessons" / "attempts.sqlite"
        with closing(sqlite3.connect(register, timeout=60)) as found:
            row = found.execute("select number from uses where user = ''").fetchone()
        return int(row[0]) if row else 0

    def staged(self, message: str) -> int:
        """Return how many candidates of an answer stand in staging."""
        name = collection_names(DOMAIN)["candidates"]
        rows = rows_of(self.stack.url("chroma"), "staging", name)["metadatas"]
        return [row["message_ref"] for row in rows].count(digest("message", message))

    def waiting(self) -> list[Path]:
        """Return the files in the spool."""
        return list(self.spool.glob("*.json"))

    def under_way(self) -> list[tuple[Any, ...]]:
        """Return message, owner, takes and tries of each answer somebody means to learn from."""
        register = self.stack.settings.data / "lessons" / "attempts.sqlite"
        if not register.exists():
            return []
        with closing(sqlite3.connect(register, timeout=60)) as found:
            if not found.execute(
                "select 1 from sqlite_master where name = 'unfinished'"
            ).fetchone():
                return []
            query = "select message, owner, takes, tries from unfinished order by since"
            return found.execute(query).fetchall()

    def kill(self, pid: int) -> None:
        """End a worker as the kernel does when memory is short."""
        os.kill(pid, signal.SIGKILL)


def new_message() -> str:
    """Return a message id nobody has used."""
    return str(uuid.uuid4())
