"""The whole filter with its store on a server: recall, learning, and every way it can fail."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

import pytest

from lessons_loop.filter.events import Usage
from lessons_loop.filter.models import Candidate, Record
from lessons_loop.filter.server import open_server, parse_server
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.exchange.intake import take_in
from lessons_loop.promote.session import GateSettings, open_gate
from lessons_loop.promote.store.initialise import initialise
from support.chroma_server import ChromaServer, prepare, put_curated, rows_of
from support.filter_chat import ASKED, EMBEDDER, Chat, scene
from support.gate import HUMAN, HashEmbedder, candidate
from support.llm_server import LlmServer
from support.outlet import model_reply
from support.patient import Ticks
from support.relay import FILTER_MAY, Relay, Spoilt
from support.shelf import SERIALS, put_published, shelf, shelved

TOKEN = "obviously-fake-token"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # outside Open WebUI the spool is in ./lessons


@pytest.fixture
def url(store_url):
    prepare(parse_server(store_url), "sql")
    put_curated(store_url, shelf(), EMBEDDER)
    return store_url


def staged(url):
    found = rows_of(url, "staging", "sql-lessons-candidates")
    rows = zip(found["ids"], found["documents"], found["metadatas"], strict=True)
    return [Candidate.from_record(Record(*row)) for row in rows]


def used(url):
    found = rows_of(url, "staging", "sql-lessons-events")
    rows = zip(found["ids"], found["documents"], found["metadatas"], strict=True)
    return [Usage.from_record(Record(*row)) for row in rows]


def test_everything_works_through_the_policy(url, chroma_server):
    async def play(chat):
        blocks = await chat.ask()
        await chat.finish()
        await chat.tick()
        return blocks

    relay = Relay(chroma_server.base, allow=FILTER_MAY)
    with relay, LlmServer([model_reply()]) as model:
        learning = {"distill_enabled": True, "distill_url": model.url, "distill_model": "m"}
        behind = url.replace(chroma_server.base, relay.base)
        blocks = scene(Chat(behind, chroma_token=TOKEN, **learning), play)
    assert SERIALS in blocks[0] and relay.refused == []
    assert {call.token for call in relay.calls} == {f"Bearer {TOKEN}"}
    assert "serial_key" in staged(url)[0].lesson.text and len(used(url)) == 1


def test_what_the_gate_publishes_is_recalled(store_url, tmp_path):
    made = [lesson.lesson.model_copy(update={"source": "taught"}) for lesson in shelf()]
    initialise(store_url, ["sql"], EMBEDDER, tmp_path / "state")
    with open_gate(GateSettings(store_url, "sql", tmp_path / "state", EMBEDDER)) as gate:
        take_in(gate, [(lesson, lesson.key[:12]) for lesson in made], HUMAN)

    async def play(chat):
        return await chat.ask(), chat.filter.backend.reader.loaded.recall.floor

    blocks, floor = scene(Chat(store_url), play)
    with contextlib.closing(open_server(parse_server(store_url), "curated")) as client:
        told = client.get_collection("sql-lessons", embedding_function=None).metadata
    assert floor == told["floor"] > 0
    assert SERIALS in blocks[0]


def test_forbidden_calls_would_be_seen(url, chroma_server):
    with Relay(chroma_server.base, allow=FILTER_MAY) as relay:
        with pytest.raises(Exception, match="403"):
            put_curated(url.replace(chroma_server.base, relay.base), [], EMBEDDER)
        assert relay.refused


def test_server_that_is_down_from_the_start_recovers(tmp_path, caplog):
    server = ChromaServer(tmp_path / "server")

    async def play(chat):
        assert [await chat.ask() for _ in range(3)] == [[], [], []]
        server.start()
        prepare(parse_server(server.base), "sql")
        put_curated(server.base, shelf(), EMBEDDER)
        await chat.tick()
        return await chat.ask()

    with caplog.at_level(logging.WARNING):
        try:
            blocks = scene(Chat(server.base), play)
        finally:
            server.kill()
    assert len(blocks) == 1 and len(caplog.records) == 1
    assert "cannot be reached" in caplog.text


def test_frozen_server_costs_no_chat_anything(tmp_path, caplog):  # T-05
    async def play(chat):
        await chat.ask()
        server.freeze()
        refreshing = asyncio.create_task(chat.tick())
        found = [await chat.ask() for _ in range(5)]
        assert not refreshing.done()
        await refreshing
        server.thaw()
        return found

    with ChromaServer(tmp_path / "server") as server:
        prepare(parse_server(server.base), "sql")
        put_curated(server.base, shelf(), EMBEDDER)
        found = scene(Chat(server.base), play)
    assert all(len(blocks) == 1 for blocks in found) and len(caplog.records) == 1


def test_frozen_from_the_start_costs_one_chat_its_limit(tmp_path, caplog):  # T-05
    async def play(chat):
        assert await chat.ask() == []
        async with Ticks(0.05) as ticks:
            for _ in range(3):
                assert await chat.ask() == []
        return ticks.count

    with ChromaServer(tmp_path / "server") as server:
        server.freeze()
        assert scene(Chat(server.base, recall_timeout_ms=1000), play) < 20  # one limit; three: 60


def test_learning_goes_on_while_the_server_is_down(tmp_path, caplog):
    async def play(chat):
        await chat.ask()
        server.kill()
        await chat.finish()
        for _ in range(3):
            await chat.tick()
        waiting = chat.filter.backend.spool.waiting()
        server.start()
        chat.filter.backend.learner._pause.end()
        await chat.tick()
        assert chat.filter.alerts.active == {}
        return waiting, chat.filter.backend.spool.waiting()

    server = ChromaServer(tmp_path / "server").start()
    with LlmServer([model_reply()]) as model, contextlib.ExitStack() as stack:
        stack.callback(server.kill)
        prepare(parse_server(server.base), "sql")
        put_curated(server.base, shelf(), EMBEDDER)
        learning = {"distill_enabled": True, "distill_url": model.url, "distill_model": "m"}
        with caplog.at_level(logging.WARNING):
            assert scene(Chat(server.base, **learning), play) == (2, 0)
        assert len(staged(server.base)) == 1 and len(used(server.base)) == 1
    said = [record.message for record in caplog.records]
    assert len(said) == 2  # one of reading, one of staging
    assert "stay in use" in said[1] or "stay in use" in said[0]
    assert "new lessons wait in lessons/spool" in caplog.text


def test_server_that_is_down_is_left_alone_for_a_while(url, chroma_server):
    async def play(chat):
        await chat.ask()
        chat.filter.backend.spool.append_candidates([candidate()])
        down.append(Spoilt(502, b"<html>"))
        relay.calls.clear()
        for _ in range(3):
            await chat.filter.backend.learner.drain()
        return len(relay.calls)

    down = []
    with Relay(chroma_server.base, spoil=lambda call: down[0] if down else None) as relay:
        assert scene(Chat(url.replace(chroma_server.base, relay.base)), play) == 1


def test_store_setting_takes_effect_at_the_next_question(url, tmp_path):
    paths = StorePaths(tmp_path / "folder")
    put_published(paths, [shelved("Ask Dana about SN-4711.", ASKED)], EMBEDDER)

    async def play(chat):
        found = [await chat.ask()]
        old = chat.filter.backend.reader
        chat.set(store=url)
        found.append(await chat.ask())
        await chat.filter.worker.settle(10)
        assert old.closed
        chat.set(store=str(paths.root))
        return [*found, await chat.ask()]

    first, second, third = scene(Chat(paths.root), play)
    assert "Dana" in first[0] and SERIALS in second[0] and "Dana" in third[0]


def test_timer_reads_the_new_store_only(url, chroma_server):
    async def play(chat):
        await chat.ask()
        chat.set(store=url)
        await chat.ask()
        await chat.filter.worker.settle(10)
        relay.calls.clear()
        await chat.tick()

    with Relay(chroma_server.base) as relay:
        scene(Chat(url.replace(chroma_server.base, relay.base)), play)
        assert relay.calls == []


def test_wrong_token_is_one_warning_and_a_new_one_helps(url, chroma_server, caplog):
    def guard(call):
        return None if call.token == f"Bearer {TOKEN}" else Spoilt(401, b"who are you")

    async def play(chat):
        for _ in range(3):
            assert await chat.ask() == []
            await chat.tick()
        chat.set(chroma_token=TOKEN)
        return await chat.ask()

    with Relay(chroma_server.base, spoil=guard) as relay, caplog.at_level(logging.INFO):
        behind = url.replace(chroma_server.base, relay.base)
        assert len(scene(Chat(behind, chroma_token="obviously-fake-but-wrong"), play)) == 1
    warned = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(warned) == 1 and "chroma_token" in warned[0].message
    assert "obviously" not in caplog.text  # T-47


def test_token_of_the_environment_is_used(url, chroma_server, monkeypatch):
    monkeypatch.setenv("LESSONS_CHROMA_TOKEN", TOKEN)
    monkeypatch.setenv("LESSONS_STORE", url)
    with Relay(chroma_server.base) as relay:
        monkeypatch.setenv("LESSONS_STORE", url.replace(chroma_server.base, relay.base))
        assert len(scene(Chat(""), lambda chat: chat.ask())) == 1
        assert {call.token for call in relay.calls} == {f"Bearer {TOKEN}"}


def test_looking_at_the_server_leaves_no_log_lines(url, caplog):
    async def play(chat):
        await chat.ask()
        loaded = [record.name for record in caplog.records]
        caplog.clear()
        await chat.tick()
        return loaded

    with caplog.at_level(logging.INFO):
        assert set(scene(Chat(url), play)) <= {"lessons_loop"}  # none of the HTTP client's
    assert caplog.records == []


def test_big_store_loads_without_freezing_the_loop(store_url):
    prepare(parse_server(store_url), "sql")
    many = [shelved(f"Use table t{n} for topic {n}.", f"topic {n}") for n in range(3000)]
    put_curated(store_url, many, HashEmbedder(384))
    spent = []

    async def play(chat):
        began = time.process_time(), time.thread_time()
        async with Ticks(0.01) as ticks:
            await chat.ask("hello")
            await chat.tick()
        spent.extend((time.process_time() - began[0], time.thread_time() - began[1]))
        return len(chat.filter.backend.reader.loaded.recall.keys), ticks.count

    lessons, ticks = scene(Chat(store_url, recall_timeout_ms=60_000), play)
    # A frozen loop comes round once, and all the loading's work is done in its own thread.
    assert lessons == 3000 and ticks >= 5
    assert spent[1] < spent[0] / 2, f"{spent[1]:.2f} of {spent[0]:.2f} s of CPU"
