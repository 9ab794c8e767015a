"""Answers taken up again: learned from once, and only as far as everybody still agrees."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from types import SimpleNamespace

import pytest

from lessons_loop.filter.events import Usage
from lessons_loop.filter.lessons_filter import CARRIER, tick
from lessons_loop.filter.unfinished import Signs, Unfinished, UnfinishedAnswer
from support.llm_server import LlmServer, hangs, http_error
from support.outlet import LESSON, model_reply, outlet_body
from support.resuming import EMBEDDER, GIVEN, REQUEST, USER, Lives, given, patient
from support.shelf import CERTS, app_with, put_published, shelf, shelved


@pytest.fixture
def server():
    """A model that hangs at its first question and answers the others."""
    with LlmServer([hangs(60), model_reply()]) as running:
        yield running


@pytest.fixture
def lives(tmp_path, server):
    return Lives(tmp_path, server)


def test_answer_under_way_is_learned_from_by_the_next(lives):
    lives.die(outlet_body())
    assert lives.left() == ["msg-1"] and lives.candidates() == []
    (ended,) = lives.left("at")
    time.sleep(1.1)
    counts = lives.live()
    (found,) = lives.candidates()
    assert found.at == ended  # what is forgotten up to now covers it
    assert found.lesson.text == LESSON["text"] and found.user_ref and found.chat_ref
    assert counts["resumed"] == counts["emitted"] == 1 and lives.left() == []
    assert lives.live()["resumed"] == 0 and len(lives.server.requests) == 2


def test_queued_answers_are_learned_from_by_the_next(tmp_path):
    with LlmServer([hangs(60), hangs(60), model_reply()]) as server:
        lives = Lives(tmp_path, server)
        lives.die(*(outlet_body(message=f"m{n}") for n in range(6)), asked=2)
        assert len(lives.left()) == 6
        assert lives.live()["resumed"] == 6
        assert len(lives.candidates()) == 6 and lives.left() == []
        assert len(server.requests) == 2 + 6


def test_model_is_asked_twice_at_most(tmp_path):
    with LlmServer([hangs(60)]) as server:
        lives = Lives(tmp_path, server)
        lives.die(outlet_body())
        lives.die()
        assert lives.left() == ["msg-1"]
        counts = lives.live()
    assert counts["lost:given-up"] == 1 and len(server.requests) == 2 and lives.left() == []


def test_use_of_lessons_is_noted_once(lives):
    put_published(lives.paths, shelf(), EMBEDDER)
    lives.die(outlet_body(), metadata=given(GIVEN))
    lives.live()
    (usage,) = [Usage.from_record(row) for row in lives.rows("sql-lessons-events")]
    assert usage.keys == (GIVEN.key,) and usage.outcome == "stop" and usage.tools == "ok"


def test_use_that_was_queued_is_noted_by_the_next(tmp_path):
    with LlmServer([hangs(60), hangs(60), model_reply()]) as server:
        lives = Lives(tmp_path, server)
        put_published(lives.paths, shelf(), EMBEDDER)
        bodies = [outlet_body(message=f"m{n}") for n in range(3)]
        lives.die(*bodies, metadata=given(GIVEN), asked=2)
        lives.live()
        uses = [Usage.from_record(row) for row in lives.rows("sql-lessons-events")]
    assert len(uses) == len({use.message_ref for use in uses}) == 3


@pytest.mark.parametrize("used", [True, False])
def test_given_lesson_confirms_itself_no_more_later(lives, used):  # T-13
    same = shelved(LESSON["text"], LESSON["trigger"])
    put_published(lives.paths, [same], EMBEDDER)
    lives.die(outlet_body(), metadata=given(same, used=used))
    counts = lives.live()
    assert counts["resumed"] == 1 and counts["dropped:recalled"] == 1
    assert lives.candidates() == []


def test_lesson_given_to_a_continued_answer_confirms_itself_no_more(lives):  # T-13
    same = shelved(LESSON["text"], LESSON["trigger"])
    put_published(lives.paths, [GIVEN, same], EMBEDDER)
    lives.die(outlet_body(), metadata=given(GIVEN))

    async def continued():
        plugin = lives.worker()
        await plugin.outlet(outlet_body(), USER, given(same), REQUEST, "lessons")
        assert await plugin.worker.settle(60) == 0

    asyncio.run(continued())
    counts = lives.live()
    assert counts["resumed"] == 1 and counts["dropped:recalled"] == 1
    assert lives.candidates() == []


def deleted(source):
    source.gone.add("msg-1")


def opted_out(source):
    source.own = {"contribute": False}


def uses_none(source):
    source.own = {"use_lessons": False}


def switched_off(source):
    source.stored["distill_enabled"] = False


def plugin_off(source):
    source.active = False


def most_zero(source):
    source.stored["distill_max_lessons"] = 0


def other_owner(source):
    source.owner = "user-2"


@pytest.mark.parametrize(
    ("change", "counted"),
    [
        (deleted, "lost:deleted"),
        (opted_out, "skipped:opted-out"),
        (uses_none, "skipped:opted-out"),
        (switched_off, "skipped:off"),
        (plugin_off, "skipped:off"),
        (most_zero, "skipped:off"),
        (other_owner, "lost:other-user"),
    ],
)
def test_change_of_mind_in_between_counts(lives, change, counted):  # T-45
    lives.die(outlet_body())
    change(lives.source)
    counts = lives.live()
    assert counts[counted] == 1 and counts["resumed"] == 0
    assert len(lives.server.requests) == 1 and lives.candidates() == [] and lives.left() == []


def test_chat_that_cannot_be_read_learns_nothing(lives, caplog):
    lives.die(outlet_body())
    lives.source.answer = None  # another Open WebUI: what we call is not there
    with caplog.at_level(logging.WARNING):
        counts = lives.live()
    assert counts["lost:unreadable"] == 1 and len(lives.server.requests) == 1
    assert caplog.text.count("taking up unfinished answers failed: TypeError") == 1


def test_chats_that_cannot_be_read_are_told_of_once(lives, caplog):
    async def scene():
        plugin = lives.worker()
        lives.source.answer = None
        for number in range(3):
            row = UnfinishedAnswer(f"m{number}", "c", "lessons", "sql", "stop", "{}", "[]", *"urt")
            Unfinished(lives.paths.root / "attempts.sqlite", "dead").note([row])
            await tick(plugin)
            assert await plugin.worker.settle(60) == 0
        return plugin.backend.learner.counts

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(scene())["lost:unreadable"] == 3
    assert caplog.text.count("taking up unfinished answers failed: TypeError") == 1


def test_use_that_cannot_be_noted_hinders_no_learning(lives):
    metadata = given()
    metadata[CARRIER]["keys"] = {"sql": ["no key " * 40]}
    lives.die(outlet_body(), metadata=metadata)
    counts = lives.live()
    assert counts["resumed"] == 1 and len(lives.candidates()) == 1 and lives.left() == []


def test_answer_waits_for_lessons_that_could_not_be_read(lives):  # T-13
    put_published(lives.paths, shelf(), EMBEDDER)
    published = lives.paths.published("sql")
    sound = published.read_bytes()
    lives.die(outlet_body(), metadata=given(GIVEN))
    published.write_bytes(b"damaged")
    assert lives.live()["resumed"] == 0
    assert lives.left() == ["msg-1"] and len(lives.server.requests) == 1
    published.write_bytes(sound)
    assert lives.live()["resumed"] == 1 and len(lives.candidates()) == 1 and lives.left() == []


def test_model_that_failed_as_the_server_ended_is_asked_again(tmp_path):
    with LlmServer([http_error(500), model_reply()]) as server:
        lives = Lives(tmp_path, server)
        assert lives.live(outlet_body())["endpoint-failed"] == 1
        assert lives.left() == ["msg-1"]  # the worker ended before its next sign of life
        assert lives.live()["emitted"] == 1
        assert lives.left() == [] and len(lives.candidates()) == 1


def test_model_that_failed_is_not_asked_again(tmp_path):
    with LlmServer([http_error(500)]) as server:
        lives = Lives(tmp_path, server)

        async def scene():
            plugin = lives.worker()
            plugin.backend.learner.underway.beat_seconds = 0.1
            await plugin.outlet(outlet_body(), USER, {}, REQUEST, "lessons")
            deadline = time.monotonic() + 60
            while not server.requests or lives.left():
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)

        asyncio.run(scene())
        assert lives.live()["resumed"] == 0 and len(server.requests) == 1


def test_other_domain_learns_nothing(lives):
    lives.die(outlet_body())
    lives.source.stored["domains"] = "openwebui,sql"
    assert lives.live()["lost:other-store"] == 1
    assert len(lives.server.requests) == 1 and lives.left() == []


def test_valves_this_worker_has_not_heard_of_count(lives, tmp_path):
    def unheard(_plugin):
        lives.source.stored["store"] = str(tmp_path / "elsewhere")

    lives.die(outlet_body())
    assert lives.live(first=unheard)["lost:other-store"] == 1
    assert len(lives.server.requests) == 1 and lives.left() == []


def test_lesson_gone_from_the_shelf_learns_nothing(lives):  # T-13
    put_published(lives.paths, shelf(), EMBEDDER)
    lives.die(outlet_body(), metadata=given(shelved("Gone by now, never to be told.")))
    assert lives.live()["lost:lessons-gone"] == 1
    assert len(lives.server.requests) == 1 and lives.candidates() == []


@pytest.mark.parametrize("more", [(), ("It runs out today.", "thanks!")])
def test_lessons_inlet_gave_are_known_later(lives, more):
    put_published(lives.paths, shelf(), EMBEDDER)
    request, metadata = SimpleNamespace(app=app_with(EMBEDDER)), {"chat_id": "chat-1"}
    said = ["expiring certificate of the ingress?", *more]
    roles = ["user", "assistant", "user"]
    told = [{"role": role, "content": text} for role, text in zip(roles, said, strict=False)]

    async def scene():
        plugin = lives.worker()
        for end in range(1, len(told) + 1, 2):  # thanks keep the block of the turn before
            metadata.pop(CARRIER, None)
            body = {"messages": [dict(m) for m in told[:end]]}
            await plugin.inlet(body, USER, metadata, request, None, "lessons")
        assert metadata[CARRIER]["texts"]
        await plugin.outlet(outlet_body(), USER, metadata, request, "lessons")
        while not lives.server.requests:
            await asyncio.sleep(0.05)

    asyncio.run(scene())
    (shown,) = lives.left("shown")
    assert json.loads(shown) == [one.key for one in shelf() if one.lesson.text == CERTS]


def test_answer_taken_by_another_meanwhile_is_left_to_him(tmp_path):
    def is_taken(handler, received):
        taken = Unfinished(lives.paths.root / "attempts.sqlite", "other", Signs(0.0))
        assert len(taken.take("lessons", 9).answers) == 1
        model_reply()(handler, received)

    with LlmServer([is_taken]) as server:
        lives = Lives(tmp_path, server)
        counts = lives.live(outlet_body(), first=patient)
    assert counts["lost:taken"] == 1 and lives.candidates() == [] and lives.left() == ["msg-1"]
