"""The hooks as Open WebUI calls them: lessons in, candidates out, a chat never broken."""

from __future__ import annotations

import asyncio
import copy
import logging
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request as Bare

from lessons_loop.filter.inject import BLOCK_OPEN
from lessons_loop.filter.lessons_filter import CARRIER, Filter, limits_of
from lessons_loop.filter.shelves import PublishedFolder
from lessons_loop.filter.store import StorePaths
from support.gate import HashEmbedder
from support.shelf import SERIALS, app_with, put_published, shelf

EMBEDDER = HashEmbedder(256)
ASKED = "operating hours of the machine with serial SN-4711?"


class Request:
    """What a hook gets as `__request__`, as far as we read it."""

    def __init__(self, app):
        self.app = app


class Chat:
    """One chat with the filter, called as Open WebUI calls it."""

    def __init__(self, root, app=None, user_valves=None, **valves):
        self.filter = Filter()
        self.filter.valves = Filter.Valves(store=str(root), domains="sql", **valves)
        self.request = Request(app or app_with(EMBEDDER))
        self.user = {"id": "user-1", "valves": Filter.UserValves(**(user_valves or {}))}
        self.events = []

    async def emit(self, event):
        self.events.append(event)

    async def inlet(self, text=ASKED, metadata=None, body=None):
        body = body or {"model": "m", "messages": [{"role": "user", "content": text}]}
        self.metadata = {"chat_id": "c1"} if metadata is None else metadata
        return await self.filter.inlet(
            body=body,
            __user__=self.user,
            __metadata__=self.metadata,
            __request__=self.request,
            __event_emitter__=self.emit,
        )


def turns(*texts):
    """Return a body with these questions and answers, taken in turns."""
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
    return {"model": "m", "messages": messages}


def blocks(body):
    return [m["content"] for m in body["messages"] if BLOCK_OPEN in str(m["content"])]


@pytest.fixture
def root(tmp_path):
    put_published(StorePaths(tmp_path), shelf(), EMBEDDER)
    return tmp_path


def test_fitting_lesson_is_injected_and_carried(root):
    chat = Chat(root)
    body = {"model": "m", "messages": [{"role": "user", "content": ASKED}]}
    before = copy.deepcopy(body)
    changed = asyncio.run(chat.inlet(body=body))
    assert body == before and len(blocks(changed)) == 1 and SERIALS in blocks(changed)[0]
    assert chat.metadata[CARRIER]["block"] == blocks(changed)[0]
    assert changed["messages"][1:] == before["messages"]


@pytest.mark.parametrize("text", ["hello!", "   ", "", "thanks"])
def test_small_talk_passes_untouched(root, text):  # T-04
    chat = Chat(root)
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    assert asyncio.run(chat.inlet(body=body)) is body
    assert CARRIER not in chat.metadata and chat.events == []


def test_empty_question_embeds_nothing(root):  # T-04
    chat = Chat(root)
    asyncio.run(chat.inlet("  "))
    assert chat.request.app.calls == []


@pytest.mark.parametrize(
    "valves",
    [{"recall_enabled": False}, {"top_k": 0}, {"token_budget": 0}, {"min_similarity": "1"}],
)
def test_recall_can_be_switched_off(root, valves):
    assert blocks(asyncio.run(Chat(root, **valves).inlet())) == []


def test_user_can_switch_recall_off(root):
    assert blocks(asyncio.run(Chat(root, user_valves={"use_lessons": False}).inlet())) == []


def test_foreign_user_valves_are_survived(root):
    class Foreign:
        def __init__(self):
            self.enabled = False

    for valves in (Foreign(), {"use_lessons": None}, None, 7, "x"):
        chat = Chat(root)
        chat.user["valves"] = valves
        assert len(blocks(asyncio.run(chat.inlet()))) == 1


def test_user_sees_the_lessons_used(root):
    chat = Chat(root)

    async def scene():
        await chat.inlet()
        await chat.filter.worker.settle(5)

    asyncio.run(scene())
    kinds = [event["type"] for event in chat.events]
    assert kinds == ["status", "source"]
    assert chat.events[0]["data"] == {"description": "Using 1 learned lesson", "done": True}
    assert SERIALS in chat.events[1]["data"]["document"][0]


@pytest.mark.parametrize(
    ("valves", "own"), [({"show_lessons": False}, {}), ({}, {"show_lessons": False})]
)
def test_showing_can_be_switched_off(root, valves, own):
    chat = Chat(root, user_valves=own, **valves)

    async def scene():
        changed = await chat.inlet()
        await chat.filter.worker.settle(5)
        return changed

    assert len(blocks(asyncio.run(scene()))) == 1 and chat.events == []


def test_emitting_never_delays_the_question(root):
    chat = Chat(root)

    async def slow(event):
        await asyncio.sleep(30)

    chat.emit = slow
    started = time.monotonic()
    assert len(blocks(asyncio.run(chat.inlet()))) == 1
    assert time.monotonic() - started < 10


def test_tool_loop_gets_the_block_back(root):
    chat = Chat(root)

    async def scene():
        first = await chat.inlet()
        same = await chat.filter.request(body=first, __metadata__=chat.metadata)
        assert same is first
        dropped = {"messages": [{"role": "system", "content": "base"}, *first["messages"][1:]]}
        return await chat.filter.request(body=dropped, __metadata__=chat.metadata)

    repaired = asyncio.run(scene())
    assert [m["role"] for m in repaired["messages"]] == ["system", "system", "user"]
    assert len(blocks(repaired)) == 1


def test_request_without_lessons_is_untouched(root):
    body = {"messages": []}
    assert asyncio.run(Chat(root).filter.request(body=body, __metadata__={"chat_id": "c"})) is body
    assert asyncio.run(Chat(root).filter.request(body=body)) is body


def test_two_models_of_a_turn_keep_their_own_lessons(root):
    chat = Chat(root)

    async def scene():
        first, second = {"chat_id": "c1"}, {"chat_id": "c1"}
        await asyncio.gather(chat.inlet(metadata=first), chat.inlet("hello", metadata=second))
        return first, second

    first, second = asyncio.run(scene())
    assert CARRIER in first and CARRIER not in second


def test_blocks_of_a_chat_stay_the_same_bytes(root):  # T-03
    chat = Chat(root)

    async def scene():
        return [blocks(await chat.inlet(ASKED + " " * n)) for n in range(3)]

    assert len({tuple(found) for found in asyncio.run(scene())}) == 1


def test_left_subject_does_not_come_back_with_a_short_follow_up(root):
    chat, said = Chat(root), [ASKED, "812 hours."]

    async def scene():
        yield blocks(await chat.inlet(body=turns(*said[:1])))
        said.extend(["Recommend three board games for rainy afternoons with children", "Chess."])
        yield blocks(await chat.inlet(body=turns(*said[:3])))
        yield blocks(await chat.inlet(body=turns(*said, "more")))

    async def all_blocks():
        return [len(found) async for found in scene()]

    assert asyncio.run(all_blocks()) == [1, 0, 0]


def hanging_app():
    return app_with(EMBEDDER, delay=3600)


def test_hanging_embedder_costs_one_chat_its_limit(root, caplog):  # T-05
    chat = Chat(root, hanging_app(), recall_timeout_ms=300)
    gaps = []

    async def ticker():
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.05)
            gaps.append(time.monotonic() - last)
            last = time.monotonic()

    async def scene():
        tick = asyncio.create_task(ticker())
        started = time.monotonic()
        found = [blocks(await chat.inlet()) for _ in range(5)]
        tick.cancel()
        return found, time.monotonic() - started

    with caplog.at_level(logging.WARNING):
        found, spent = asyncio.run(scene())
    assert all(len(f) == 1 for f in found)  # words alone found it
    assert spent < 3 and max(gaps) < 1
    assert len(caplog.records) == 1 and "did not answer in time" in caplog.text


def test_embedder_that_recovers_is_used_again(root, caplog):
    chat = Chat(root, app_with(EMBEDDER, error=RuntimeError("no model is loaded")))

    async def scene():
        await chat.inlet()
        recaller = chat.filter.backend.recaller
        assert recaller.paused_until > time.monotonic()
        chat.request.app.error, recaller.paused_until = None, 0.0
        await chat.inlet()
        return recaller

    with caplog.at_level(logging.INFO):
        recaller = asyncio.run(scene())
    assert recaller.alerts.active == {} and "works again" in caplog.text


@pytest.mark.parametrize(
    ("embedder", "says"),
    [(HashEmbedder(64), "64 dimensions"), (HashEmbedder(256, salt="x"), "256 dimensions")],
)
def test_other_embedding_model_is_refused_by_name(root, caplog, embedder, says):  # T-07
    chat = Chat(root, app_with(embedder))
    with caplog.at_level(logging.WARNING):
        found = [blocks(asyncio.run(chat.inlet())) for _ in range(2)]
    assert all(len(f) == 1 for f in found)
    assert len(caplog.records) == 1
    assert says in caplog.text and "hash-256" in caplog.text and "lessons reembed" in caplog.text


@pytest.mark.parametrize(
    "answer", [[], [[0.0] * 256], [[float("nan")] * 256], "text", None, [[1], [2]]]
)
def test_nonsense_from_the_embedder_is_survived(root, answer):
    chat = Chat(root)

    async def nonsense(query, prefix=None, user=None):
        return answer

    chat.request.app.state.EMBEDDING_FUNCTION = nonsense
    assert len(blocks(asyncio.run(chat.inlet()))) == 1


def test_no_engine_means_recall_by_words(root):
    chat = Chat(root)
    chat.request.app.state.EMBEDDING_FUNCTION = None
    assert len(blocks(asyncio.run(chat.inlet()))) == 1


def test_missing_store_is_no_trouble(tmp_path, caplog):
    chat = Chat(tmp_path / "nowhere")
    with caplog.at_level(logging.WARNING):
        assert blocks(asyncio.run(chat.inlet())) == []
    assert not caplog.records and not (tmp_path / "nowhere").exists()


def test_unusable_server_address_is_one_warning(tmp_path, caplog):
    chat = Chat("http://user:secret@127.0.0.1:8000")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert blocks(asyncio.run(chat.inlet())) == []
    assert len(caplog.records) == 1 and "chroma_token" in caplog.text
    assert "secret" not in caplog.text


def test_unforeseen_error_tells_no_chat_text(root, caplog):
    chat = Chat(root)

    class Odd(dict):
        def get(self, key, default=None):
            raise ValueError("text of a private chat")

    with caplog.at_level(logging.INFO):
        body = asyncio.run(chat.inlet(metadata=Odd(chat_id="c")))
    assert blocks(body) == [] and "ValueError" in caplog.text
    assert "private chat" not in caplog.text


def test_lessons_published_later_are_recalled(tmp_path):
    chat = Chat(tmp_path)

    async def scene():
        before = blocks(await chat.inlet())
        put_published(StorePaths(tmp_path), shelf(), EMBEDDER)
        chat.filter.backend.reader.refresh()
        return before, blocks(await chat.inlet())

    before, after = asyncio.run(scene())
    assert before == [] and len(after) == 1


def test_huge_paste_stays_whole(root):  # T-06
    paste = "Summarise this log:\n" + "ERROR x=1 \n" * 20_000
    changed = asyncio.run(Chat(root).inlet(paste))
    assert changed["messages"][-1]["content"] == paste


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)
MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "role": st.sampled_from(["user", "assistant", "system"]) | JSON,
        "content": JSON,
        "output": JSON,
        "id": JSON,
        "finish_reason": JSON,
        "tool_calls": JSON,
    },
)
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "messages": st.lists(MESSAGE | JSON) | JSON,
        "chat_id": JSON,
        "id": JSON,
        "model": JSON,
    },
)


@settings(max_examples=150, deadline=None)
@given(
    body=BODIES,
    metadata=st.none()
    | st.dictionaries(st.sampled_from(["user_message", "chat_id", CARRIER]), JSON),
    user=st.none() | st.dictionaries(st.sampled_from(["id", "valves"]), JSON),
)
def test_no_shape_breaks_a_chat(tmp_path_factory, body, metadata, user):  # T-01, T-14
    chat = Chat(tmp_path_factory.getbasetemp() / "none", distill_enabled=True)
    before = copy.deepcopy(body)

    async def scene():
        for hook in (chat.filter.inlet, chat.filter.outlet, chat.filter.request):
            arguments = {"body": body, "__metadata__": copy.deepcopy(metadata)}
            if hook != chat.filter.request:
                arguments |= {"__user__": user, "__request__": None}
            returned = await hook(**arguments)
            assert isinstance(returned, dict)
        await chat.filter.worker.settle(20)

    asyncio.run(scene())
    assert body == before


def test_request_without_a_server_breaks_no_chat(root, caplog):  # T-14
    chat, bare = Chat(root), Bare({"type": "http", "headers": []})

    async def scene():
        for hook in (chat.filter.inlet, chat.filter.outlet):
            assert isinstance(await hook(turns(ASKED), None, {}, bare), dict)

    asyncio.run(scene())
    assert "KeyError" not in caplog.text


LOAD = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("chromadb", "open_webui"):
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
import os
before = set(os.listdir("."))
from lessons_loop.filter.lessons_filter import Filter
Filter()
assert set(os.listdir(".")) == before
assert "chromadb" not in sys.modules
"""


def test_loading_needs_and_touches_nothing(tmp_path):  # T-09, T-43
    environment = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", LOAD], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_hooks_have_the_names_open_webui_passes():
    import inspect

    for name in ("inlet", "request", "outlet"):
        parameters = list(inspect.signature(getattr(Filter, name)).parameters)
        assert parameters[:2] == ["self", "body"]
        assert set(parameters[2:]) <= {
            "__user__",
            "__metadata__",
            "__request__",
            "__event_emitter__",
            "__id__",
        }


def test_engine_call_that_never_ends_is_not_the_last(root):  # T-05
    chat = Chat(root, recall_timeout_ms=300)
    working, calls = chat.request.app.state.EMBEDDING_FUNCTION, []

    async def first_hangs(query, prefix=None, user=None):
        calls.append(query)
        if len(calls) == 1:
            await asyncio.sleep(3600)
        return await working(query, prefix=prefix)

    chat.request.app.state.EMBEDDING_FUNCTION = first_hangs

    async def scene():
        await chat.inlet("hello")
        recaller = chat.filter.backend.recaller
        recaller.check_seconds, recaller.paused_until = 0.1, 0.0
        recaller._checking = None  # its limit was set when the chat began
        calls.clear()
        for _ in range(20):  # a busy machine may be late once more
            await chat.inlet()
            if not recaller.alerts.active:
                break
            await asyncio.sleep(0.3)
            recaller.paused_until = 0.0
        return recaller

    assert asyncio.run(scene()).alerts.active == {} and len(calls) > 1


@pytest.mark.parametrize("told", ["my salary is 9999 SN-4711", "Dana"])
def test_engine_error_repeats_no_chat_text(root, caplog, told):
    chat = Chat(root)

    async def echoes(query, prefix=None, user=None):
        raise ValueError(f"400, cannot embed {query!r}")

    async def scene():
        await chat.inlet("hello")
        fingerprint = chat.filter.backend.reader.loaded.fingerprint
        chat.request.app.state.EMBEDDING_FUNCTION = echoes
        chat.filter.backend.recaller._trusted = (echoes, fingerprint)
        await chat.inlet(told)

    with caplog.at_level(logging.INFO):
        asyncio.run(scene())
    assert "ValueError" in caplog.text and told not in caplog.text


@pytest.mark.parametrize("value", ["false", "off", 0, False])
def test_opt_out_in_any_spelling_counts(root, value):  # T-45
    chat = Chat(root)
    chat.user["valves"] = {"use_lessons": value}
    assert blocks(asyncio.run(chat.inlet())) == []


@pytest.mark.parametrize("store", ["~no-such-user/x", "a\x00b"])
def test_impossible_store_folder_is_named(caplog, store):
    chat = Chat(store)
    with caplog.at_level(logging.WARNING):
        assert blocks(asyncio.run(chat.inlet())) == []
    assert len(caplog.records) == 1 and "set the valve `store`" in caplog.text


def test_absurd_limits_are_cut_down(root):
    valves = Filter.Valves(recall_timeout_ms=10**9, top_k=10**9)
    limits = limits_of(valves)
    assert limits.seconds <= 60 and limits.top_k <= 64
    assert len(blocks(asyncio.run(Chat(root, recall_timeout_ms=10**9, top_k=10**9).inlet()))) == 1


def test_long_chat_does_not_hold_the_loop(root):
    turns = [{"role": r, "content": "text " * 40_000} for r in ("user", "assistant")] * 2_500
    body = {"messages": [*turns, {"role": "user", "content": ASKED}]}
    chat = Chat(root)

    async def scene():
        await chat.inlet()
        started = time.process_time()
        assert len(blocks(await chat.inlet(body=body))) == 1
        return time.process_time() - started

    assert asyncio.run(scene()) < 1


def test_fingerprint_is_taken_while_the_lessons_are_read(root):
    chat, begun = Chat(root), []

    def slow(domain, known, fetch=PublishedFolder.fetch):
        time.sleep(0.5)
        begun.append(len(chat.request.app.calls))
        return fetch(chat.filter.backend.reader.source, domain, known)

    async def scene():
        chat.filter._ready(chat.filter.valves).reader.source.fetch = slow
        assert len(blocks(await chat.inlet())) == 1
        await chat.inlet()

    asyncio.run(scene())
    assert begun == [1]
    assert [len(texts) for texts in chat.request.app.calls] == [8, 1, 1]


def test_thanks_keep_the_block_and_show_nothing(root):  # T-03
    chat = Chat(root)

    async def two_turns():
        first = await chat.inlet(ASKED)
        await chat.filter.worker.settle(5)
        chat.events.clear()
        thanked = await chat.inlet(body=turns(ASKED, "1,481 hours.", "Great, thank you."))
        await chat.filter.worker.settle(5)
        return first, thanked

    first, thanked = asyncio.run(two_turns())
    assert blocks(thanked) == blocks(first) != []
    assert chat.events == [] and chat.metadata[CARRIER]["keys"] == {}
