"""Answers taken up again: learned from once, and only as far as everybody still agrees."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import time
from contextlib import closing
from types import SimpleNamespace

import pytest

from lessons_loop.filter.events import Usage
from lessons_loop.filter.host import StoredAnswer
from lessons_loop.filter.lessons_filter import CARRIER, Filter, tick
from lessons_loop.filter.models import Candidate, Record
from lessons_loop.filter.store import StorePaths, ensure_salt, staging_session
from lessons_loop.filter.text import user_reference
from lessons_loop.filter.unfinished import Signs, Unfinished, UnfinishedAnswer
from support.gate import HashEmbedder
from support.llm_server import LlmServer, hangs, http_error
from support.outlet import LESSON, model_reply, outlet_body
from support.shelf import CERTS, app_with, put_published, shelf, shelved

EMBEDDER = HashEmbedder(64)
GIVEN = shelf()[0]
USER = {"id": "user-1", "valves": Filter.UserValves()}
REQUEST = SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(MODELS={})))


class Saved:
    """Saved chats, valves and wishes as they are now; stands in for Open WebUI's database."""

    def __init__(self, **valves):
        self.stored = valves
        self.active, self.owner = True, "user-1"
        self.own = {}
        self.gone = set()

    async def answer(self, chat, message):
        if message in self.gone:
            return None
        told = [dict(m) for m in outlet_body(chat, message)["messages"]]
        told[-1].pop("finish_reason")
        return StoredAnswer(tuple(told), self.owner, "m")

    async def valves(self, plugin):
        return self.stored if self.active and plugin == "lessons" else None

    async def own_valves(self, plugin, user):
        return self.own


class Lives:
    """Workers one after another on one store; all but the last end while they learn."""

    def __init__(self, root, server):
        self.paths = StorePaths(root)
        settings = {"distill_enabled": True, "distill_url": server.url, "distill_model": "m"}
        self.source = Saved(**settings, store=str(root), domains="sql")
        self.server = server

    def worker(self):
        plugin = Filter()
        plugin.valves = Filter.Valves(**self.source.stored)
        plugin.plugin, plugin.app = "lessons", REQUEST.app
        resumption = plugin._ready(plugin.valves).resumption
        resumption.source = self.source
        resumption.learner.underway.register.signs = Signs(0.0)  # whoever is there is dead
        return plugin

    def die(self, *bodies, metadata=None, asked=1):
        """Run a worker that is told of answers and ends once the model was asked."""

        async def scene():
            plugin, before = self.worker(), len(self.server.requests)
            for body in bodies:
                said = await plugin.outlet(body, USER, metadata or {}, REQUEST, "lessons")
                assert said is body
            if not bodies:
                await tick(plugin)
            deadline = time.monotonic() + 30
            while len(self.server.requests) < before + asked and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
            assert len(self.server.requests) == before + asked

        asyncio.run(scene())

    def live(self, *bodies, first=lambda plugin: None):
        """Run a worker that is told of answers and takes up what there is; return its counts."""

        async def scene():
            plugin = self.worker()
            first(plugin)
            for body in bodies:
                await plugin.outlet(body, USER, {}, REQUEST, "lessons")
            await tick(plugin)
            assert await plugin.worker.settle(60) == 0
            await plugin.backend.learner.drain()
            return plugin.backend.learner.counts

        return asyncio.run(scene())

    def left(self, column="message"):
        """Return what is noted of the answers still under way."""
        with closing(sqlite3.connect(self.paths.root / "attempts.sqlite")) as found:
            return [
                m for (m,) in found.execute(f"select {column} from unfinished order by message")
            ]

    def rows(self, name):
        with staging_session(self.paths) as client:
            if name not in [c.name for c in client.list_collections()]:
                return []
            got = client.get_collection(name, embedding_function=None).get()
        return [
            Record(i, d, m)
            for i, d, m in zip(got["ids"], got["documents"], got["metadatas"], strict=True)
        ]

    def candidates(self):
        return [Candidate.from_record(row) for row in self.rows("sql-lessons-candidates")]


@pytest.fixture
def server():
    """A model that hangs at its first question and answers the others."""
    with LlmServer([hangs(60), model_reply()]) as running:
        yield running


@pytest.fixture
def lives(tmp_path, server):
    return Lives(tmp_path, server)


def given(*lessons, used=True):
    """What inlet left of these lessons."""
    keys = [lesson.key for lesson in lessons]
    texts = [lesson.lesson.text for lesson in lessons]
    carried = {"block": "", "keys": {"sql": keys} if used else {}, "shown": keys, "texts": texts}
    return {CARRIER: carried}


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
        assert await plugin.worker.settle(30) == 0

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
            assert await plugin.worker.settle(30) == 0
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
            deadline = time.monotonic() + 30
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


def test_lessons_told_without_keys_are_not_noted(lives):
    carried = given(GIVEN)
    del carried[CARRIER]["shown"]
    lives.die(outlet_body(), metadata=carried)
    assert lives.left() == []


@pytest.mark.parametrize("chat", ["", "temporary:abc", "local:abc", "channel:abc"])
def test_chats_that_are_not_saved_are_not_noted(lives, chat):  # T-45
    lives.source.stored["distill_api_chats"] = True
    lives.die(outlet_body(chat, "secret-4711"), asked=not chat)
    register = lives.paths.root / "attempts.sqlite"
    assert not register.exists() or b"secret-4711" not in register.read_bytes()


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


def patient(plugin):
    """Let others live."""
    plugin.backend.learner.underway.register.signs = Signs()


def test_answer_taken_by_another_meanwhile_is_left_to_him(tmp_path):
    def is_taken(handler, received):
        taken = Unfinished(lives.paths.root / "attempts.sqlite", "other", Signs(0.0))
        assert len(taken.take("lessons", 9).answers) == 1
        model_reply()(handler, received)

    with LlmServer([is_taken]) as server:
        lives = Lives(tmp_path, server)
        counts = lives.live(outlet_body(), first=patient)
    assert counts["lost:taken"] == 1 and lives.candidates() == [] and lives.left() == ["msg-1"]


def test_full_queue_loses_no_answer(tmp_path):  # T-25
    with LlmServer([model_reply()]) as server:
        lives = Lives(tmp_path, server)
        workers = []

        def short(plugin):
            plugin.worker.limit = 4
            workers.append(plugin.worker)

        lives.live(*(outlet_body(message=f"m{n}") for n in range(12)), first=short)
        assert workers[0].counts["overflow"] > 0
        lives.live()
        assert len(lives.candidates()) == 12 and len(server.requests) == 12
    assert lives.left() == []


def test_answer_that_stood_back_is_learned_from_by_the_same_worker(tmp_path):  # T-25
    with LlmServer([model_reply()]) as server:
        lives = Lives(tmp_path, server)

        async def scene():
            plugin = lives.worker()
            plugin.worker.limit, plugin.backend.learner.underway.beat_seconds = 4, 0.1
            for number in range(12):
                body = outlet_body(message=f"m{number}")
                await plugin.outlet(body, USER, {}, REQUEST, "lessons")
            deadline = time.monotonic() + 60
            while len(server.requests) < 12 and time.monotonic() < deadline:
                await tick(plugin)
                await asyncio.sleep(0.1)
            assert await plugin.worker.settle(30) == 0

        asyncio.run(scene())
        assert len(server.requests) == 12 and lives.left() == []


def test_full_queue_counts_what_nobody_can_read_again(tmp_path):
    with LlmServer([model_reply()]) as server:
        lives = Lives(tmp_path, server)
        lives.source.stored["distill_api_chats"] = True

        def short(plugin):
            plugin.worker.limit = 4

        counts = lives.live(*(outlet_body("", f"m{n}") for n in range(12)), first=short)
    assert counts["lost:queue-full"] > 0
    assert counts["lost:queue-full"] + len(server.requests) == 12


def test_replaced_plugin_finishes_what_it_has_alone(tmp_path):
    def slow(handler, received):
        time.sleep(1)
        model_reply()(handler, received)

    with LlmServer([slow]) as server:
        lives = Lives(tmp_path, server)

        async def scene():
            old = lives.worker()
            old.backend.learner.underway.beat_seconds = 0.2
            queue = old.worker
            for number in range(6):
                body = outlet_body(message=f"m{number}")
                await old.outlet(body, USER, {}, REQUEST, "lessons")
            del old
            new = lives.worker()
            new.backend.learner.underway.register.signs = Signs(2.0)
            while queue.running:
                await tick(new)
                await asyncio.sleep(0.1)
            assert new.backend.learner.counts["resumed"] == 0
            await new.worker.settle(30)
            await new.backend.learner.drain()

        asyncio.run(scene())
        assert len(lives.candidates()) == len(server.requests) == 6 and lives.left() == []


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
                assert await plugin.worker.settle(30) == 0

        asyncio.run(scene())
    told = [one.getMessage() for one in caplog.records if "lessons" in one.name]
    assert len(told) == len(set(told)) <= 2


def test_locked_register_delays_no_outlet(tmp_path):  # T-05
    with LlmServer([model_reply()]) as server:
        lives = Lives(tmp_path, server)
        lives.live(outlet_body(message="first"))
        with closing(sqlite3.connect(tmp_path / "attempts.sqlite", isolation_level=None)) as held:
            held.execute("begin exclusive")
            assert asyncio.run(slowest_outlet(lives)) < 1


async def slowest_outlet(lives):
    """Tell a worker of 30 answers; return the longest time one took, and any other task."""
    plugin, spent = lives.worker(), []
    for number in range(30):
        started = time.monotonic()
        await plugin.outlet(outlet_body(message=f"m{number}"), USER, {}, REQUEST, "lessons")
        await asyncio.to_thread(lambda: None)  # what Open WebUI asks its threads for
        spent.append(time.monotonic() - started)
    return max(spent)
