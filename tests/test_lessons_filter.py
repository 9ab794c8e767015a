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

from lessons_loop.filter.lessons_filter import CARRIER, Filter
from lessons_loop.filter.store import StorePaths
from support.hooks import ASKED, EMBEDDER, Chat, blocks, turns
from support.odd_bodies import BODIES, JSON
from support.shelf import SERIALS, put_published, shelf


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
        await chat.filter.worker.settle(60)

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
        await chat.filter.worker.settle(60)
        return changed

    assert len(blocks(asyncio.run(scene()))) == 1 and chat.events == []


def test_emitting_never_delays_the_question(root):
    chat = Chat(root)

    async def slow(event):
        await asyncio.sleep(600)

    chat.emit = slow
    started = time.monotonic()
    assert len(blocks(asyncio.run(chat.inlet()))) == 1
    assert time.monotonic() - started < 100


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


def test_unforeseen_error_tells_no_chat_text(root, caplog):
    chat = Chat(root)

    class Odd(dict):
        def get(self, key, default=None):
            raise ValueError("text of a private chat")

    with caplog.at_level(logging.INFO):
        body = asyncio.run(chat.inlet(metadata=Odd(chat_id="c")))
    assert blocks(body) == [] and "ValueError" in caplog.text
    assert "private chat" not in caplog.text


def test_huge_paste_stays_whole(root):  # T-06
    paste = "Summarise this log:\n" + "ERROR x=1 \n" * 20_000
    changed = asyncio.run(Chat(root).inlet(paste))
    assert changed["messages"][-1]["content"] == paste


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
        await chat.filter.worker.settle(60)

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


@pytest.mark.parametrize("value", ["false", "off", 0, False])
def test_opt_out_in_any_spelling_counts(root, value):  # T-45
    chat = Chat(root)
    chat.user["valves"] = {"use_lessons": value}
    assert blocks(asyncio.run(chat.inlet())) == []


def test_thanks_keep_the_block_and_show_nothing(root):  # T-03
    chat = Chat(root)

    async def two_turns():
        first = await chat.inlet(ASKED)
        await chat.filter.worker.settle(60)
        chat.events.clear()
        thanked = await chat.inlet(body=turns(ASKED, "1,481 hours.", "Great, thank you."))
        await chat.filter.worker.settle(60)
        return first, thanked

    first, thanked = asyncio.run(two_turns())
    assert blocks(thanked) == blocks(first) != []
    assert chat.events == [] and chat.metadata[CARRIER]["keys"] == {}
