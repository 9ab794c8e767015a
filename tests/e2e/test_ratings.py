"""Thumbs in a real Open WebUI: given, flipped, removed, with a reason and a comment."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from typing import Any

import pytest

from lessons_loop.deploy.webui.browser import Turn
from lessons_loop.deploy.webui.client import OpenWebUI
from lessons_loop.filter.events import Rating
from lessons_loop.filter.inject import reference
from support.openwebui import MODEL, PLUGIN, RATING_PLUGIN, Server
from support.processes import soon

GADGETS = "How do I count the gadgets in the warehouse?"


class Page:
    """What the chat page sends when somebody clicks a thumb under an answer."""

    def __init__(self, client: OpenWebUI, turn: Turn) -> None:
        self.client, self.turn = client, turn
        self.feedback = ""

    def rate(self, rating: int | None, **data: object) -> None:
        """Click, or send the form below; a first click makes the feedback, later ones change it."""
        meta = {"arena": False, "message_id": self.turn.message_id, "chat_id": self.turn.chat_id}
        form = {"type": "rating", "data": {"rating": rating, "model_id": MODEL} | data}
        where = f"/{self.feedback}" if self.feedback else ""
        chat = {"chat": {"id": self.turn.chat_id}}
        made = self.client.ask(
            "POST",
            f"/api/v1/evaluations/feedback{where}",
            form | {"meta": meta | {"message_index": 2}, "snapshot": chat},
        )
        self.feedback = made["id"]

    def delete(self, client: OpenWebUI | None = None) -> None:
        """Delete the feedback."""
        path = f"/api/v1/evaluations/feedback/{self.feedback}"
        (client or self.client).ask("DELETE", path)


def ratings(server: Server, turn: Turn) -> list[Rating]:
    """Return the ratings of an answer, the oldest first."""
    return server.ratings(turn.message_id)


def outcomes(server: Server, turn: Turn, number: int) -> list[str]:
    """Wait for that many ratings of an answer; return their outcomes."""
    found = soon(lambda: len(rows := ratings(server, turn)) >= number and rows)
    return [rating.outcome for rating in found]


@pytest.fixture
def rated(openwebui: Server) -> Server:
    """A server with the rating plugin in its usual state."""
    openwebui.install_ratings()
    return openwebui


def test_thumb_meets_the_used_event(rated: Server) -> None:
    page = Page(rated.admin, rated.ask(GADGETS))
    usage = rated.usage_of(page.turn)
    page.rate(1)
    (rating,) = soon(lambda: ratings(rated, page.turn))
    assert rating.message_ref == usage.message_ref
    assert rating.user_ref == usage.user_ref and rating.chat_ref == usage.chat_ref
    assert usage.model == MODEL


def test_each_change_is_one_row(rated: Server) -> None:
    page = Page(rated.admin, rated.ask(GADGETS))
    for data in ({}, {"tags": ["warehouse"]}, {"tags": ["warehouse"], "details": {"rating": 9}}):
        page.rate(1, **data)
        outcomes(rated, page.turn, 1)
    page.rate(-1, reason=None)
    outcomes(rated, page.turn, 2)
    page.rate(-1, reason="too_verbose", comment="lesson 0a1b2c3d told too much")
    outcomes(rated, page.turn, 3)
    page.delete()
    assert outcomes(rated, page.turn, 4) == ["up", "down", "down", "none"]
    third = ratings(rated, page.turn)[2]
    assert (third.reason, third.keys) == ("too_verbose", ("0a1b2c3d",))
    assert "told too much" not in third.model_dump_json()


def test_admin_deletes_what_a_user_rated(rated: Server) -> None:
    ann = rated.user("ann")
    page = Page(ann, rated.ask(GADGETS, client=ann))
    page.rate(-1)
    outcomes(rated, page.turn, 1)
    page.delete(rated.admin)
    assert outcomes(rated, page.turn, 2) == ["down", "none"]


def test_user_deletes_all_his_feedback(rated: Server) -> None:
    ann, ben = rated.user("ann"), rated.user("ben")
    pages = [Page(user, rated.ask(GADGETS, client=user)) for user in (ann, ben)]
    for page in pages:
        page.rate(1)
        outcomes(rated, page.turn, 1)
    ann.ask("DELETE", "/api/v1/evaluations/feedbacks")
    assert outcomes(rated, pages[0].turn, 2) == ["up", "none"]
    assert outcomes(rated, pages[1].turn, 1) == ["up"]


def test_opted_out_rater_leaves_nothing(rated: Server) -> None:
    quiet = rated.user(f"quiet{uuid.uuid4().hex[:6]}")
    quiet.set_user_valves(PLUGIN, {"contribute": False})
    page = Page(quiet, rated.ask(GADGETS, client=quiet))
    page.rate(1)
    follow = Page(rated.admin, rated.ask(GADGETS))
    follow.rate(1)  # heard after the one before
    outcomes(rated, follow.turn, 1)
    assert ratings(rated, page.turn) == []


def test_rating_plugin_switched_off_leaves_nothing(rated: Server) -> None:
    page = Page(rated.admin, rated.ask(GADGETS))
    rated.admin.set_valves("functions", RATING_PLUGIN, {"enabled": False})
    page.rate(1)
    rated.admin.set_valves("functions", RATING_PLUGIN, {"enabled": True})
    page.rate(-1)
    assert outcomes(rated, page.turn, 1) == ["down"]


def test_restart_keeps_what_was_noted(rated: Server) -> None:
    page = Page(rated.admin, rated.ask(GADGETS))
    page.rate(1)
    outcomes(rated, page.turn, 1)
    rated.restart()
    page.client = rated.admin
    page.rate(1)
    page.delete()
    assert outcomes(rated, page.turn, 2) == ["up", "none"]


def test_named_lesson_is_the_one_that_was_shown(rated: Server) -> None:
    page = Page(rated.admin, rated.ask(GADGETS))
    usage = rated.usage_of(page.turn)
    message: dict[str, Any] = rated.admin.stored_message(page.turn.chat_id, page.turn.message_id)
    shown = message["sources"][0]["source"]["name"]
    page.rate(-1, reason="not_factually_correct", comment=f"wrong: {shown}")
    (rating,) = soon(lambda: ratings(rated, page.turn))
    assert rating.keys == (reference(usage.keys[0]),)


def test_thumbs_reach_the_counters_of_the_lesson(rated: Server) -> None:
    environment = {
        **os.environ,
        "LESSONS_STORE": str(rated.paths.root),
        "LESSONS_DOMAIN": "sql",
        "LESSONS_EMBEDDING": f"openai:fake-embed@{rated.provider.url}",
        "LESSONS_SALT": "fake-salt",
    }

    def gate(*words: str) -> None:
        command = [sys.executable, "-m", "lessons_loop.deploy.cli", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stderr + done.stdout

    def counters(key: str) -> tuple[int, int, int]:
        row = rated.gate(lambda session: session.curated[key])
        return row.hits, row.successes, row.failures

    gate("confirm")
    rated.move_spooled()  # what earlier tests left is counted before
    gate("promote", "--unattended")
    ann = rated.user("ann")
    good, bad = Page(rated.admin, rated.ask(GADGETS)), Page(ann, rated.ask(GADGETS, client=ann))
    ((key,), _) = [rated.usage_of(page.turn).keys for page in (good, bad)]
    hits, successes, failures = counters(key)
    good.rate(1)
    bad.rate(-1, reason="not_factually_correct")
    for page in (good, bad):
        outcomes(rated, page.turn, 1)
    for _ in range(2):  # a second run counts nothing twice
        gate("promote", "--unattended")
        assert counters(key) == (hits + 2, successes + 1, failures + 1)
    good.delete()
    outcomes(rated, good.turn, 1)
    gate("promote", "--unattended")
    assert counters(key) == (hits + 2, successes, failures + 1)


def test_thumb_that_cannot_be_kept_is_one_warning_and_comes_with_the_next(rated: Server) -> None:
    page = Page(rated.admin, rated.ask(GADGETS))
    other = Page(rated.admin, rated.ask(GADGETS))
    register = rated.paths.ratings
    register.unlink(missing_ok=True)
    register.mkdir()
    for one in (page, other):
        one.rate(1)  # answered all the same
    assert soon(lambda: "a thumb was not noted" in rated.log)
    register.rmdir()
    page.rate(1, tags=["warehouse"])  # what the page sends next
    assert outcomes(rated, page.turn, 1) == ["up"]
    assert rated.log.count("a thumb was not noted") == 1
