"""The register of answers under way: what stands in it, and what an unusable one costs."""

from __future__ import annotations

import asyncio
import logging

import pytest

from lessons_loop.filter.store import ensure_salt
from lessons_loop.filter.text import user_reference
from lessons_loop.filter.unfinished import Unfinished
from support.llm_server import LlmServer, hangs
from support.outlet import model_reply, outlet_body
from support.resuming import GIVEN, REQUEST, USER, Lives, given


@pytest.fixture
def lives(tmp_path):
    with LlmServer([hangs(60), model_reply()]) as server:
        yield Lives(tmp_path, server)


def test_register_holds_no_word_of_the_chat(lives):  # T-45
    lives.die(outlet_body(), metadata=given(GIVEN))
    content = (lives.paths.root / "attempts.sqlite").read_bytes()
    assert b"msg-1" in content and b"user-1" not in content
    assert all(word not in content for word in (b"SN-4711", b"telemetry", b"machine", b"serial"))


def test_forgotten_while_the_model_thinks_leaves_nothing(tmp_path):
    def forgets(handler, received):
        reference = user_reference(ensure_salt(lives.paths), "user-1")
        assert Unfinished(lives.paths.root / "attempts.sqlite", "gate").forget([reference]) == 1
        model_reply()(handler, received)

    with LlmServer([forgets]) as server:
        lives = Lives(tmp_path, server)
        counts = lives.live(outlet_body())
    assert counts["lost:taken"] == 1 and lives.candidates() == [] and lives.left() == []


def test_unusable_register_warns_once_and_learns(tmp_path, caplog):
    (tmp_path / "attempts.sqlite").mkdir()
    with LlmServer([model_reply()]) as server, caplog.at_level(logging.WARNING):
        lives = Lives(tmp_path, server)
        lives.live(outlet_body(), outlet_body(message="msg-2"))
    assert len(lives.candidates()) == 2
    assert caplog.text.count("each worker counts for itself") == 1
    told = [r.getMessage() for r in caplog.records if "lessons" in r.name]
    assert len(told) == len(set(told)) <= 3  # counting, noting, taking up


def no_salt(root):
    (root / "salt").mkdir()


def no_spool(root):
    (root / "spool").write_text("a file where the folder should be")


@pytest.mark.parametrize("break_it", [no_salt, no_spool])
def test_unusable_part_of_the_store_is_told_once(tmp_path, caplog, break_it):
    break_it(tmp_path)
    with LlmServer([model_reply()]) as server, caplog.at_level(logging.WARNING):
        lives = Lives(tmp_path, server)

        async def scene():
            plugin = lives.worker()
            for number in range(4):
                body = outlet_body(message=f"m{number}")
                await plugin.outlet(body, USER, {}, REQUEST, "lessons")
                assert await plugin.worker.settle(60) == 0

        asyncio.run(scene())
    told = [one.getMessage() for one in caplog.records if "lessons" in one.name]
    assert len(told) == len(set(told)) <= 2
