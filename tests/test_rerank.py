"""The reranking model orders and cuts; a bad one costs nothing but its order."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.inject import BLOCK_OPEN
from lessons_loop.filter.lessons_filter import Filter
from lessons_loop.filter.question import Asked
from lessons_loop.filter.rerank import probabilities, reordered, rerank_query
from lessons_loop.filter.store import StorePaths
from support.gate import HashEmbedder
from support.llm_server import LlmServer, hangs, http_error, sends
from support.patient import PATIENT_MS
from support.reranker import ranks, reranking_function
from support.shelf import app_with, put_published, shelved

EMBEDDER = HashEmbedder(256)
ASKED = "How many operating hours did machine SN-4711 run?"
NEAR = "Sum the operating hours of a machine from telemetry_hours."
FAR = "Read a machine's hours of service from the workshop ledger."


@pytest.fixture
def root(tmp_path):
    lessons = [
        shelved(NEAR, "operating hours of one machine"),
        shelved(FAR, "how many hours a machine was in service"),
    ]
    put_published(StorePaths(tmp_path), lessons, EMBEDDER)
    return tmp_path


def chat(root, function, **valves):
    app = app_with(EMBEDDER)
    app.state.RERANKING_FUNCTION = function
    settings = {"rerank": True, "top_k": 1, "min_similarity": "0.05"}
    settings |= {"recall_timeout_ms": PATIENT_MS} | valves
    plugin = Filter()
    plugin.valves = Filter.Valves(store=str(root), domains="sql", **settings)
    request = SimpleNamespace(app=app)

    async def ask(text=ASKED):
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
        changed = await plugin.inlet(body=body, __metadata__={}, __request__=request)
        return [m["content"] for m in changed["messages"] if BLOCK_OPEN in m["content"]]

    return ask


def shown(root, function, **valves):
    return "".join(asyncio.run(chat(root, function, **valves)()))


def test_favourite_of_the_model_is_shown(root):
    with LlmServer([ranks(lambda text: 0.9 if FAR in text else 0.2)]) as server:
        assert FAR in shown(root, reranking_function(server.url))
        (request,) = server.requests
    assert request.body["query"] == ASKED and len(request.body["documents"]) == 2
    assert NEAR in shown(root, reranking_function(server.url), rerank=False)


def test_unrelated_lessons_are_cut(root):
    with LlmServer([ranks(lambda text: -11.0)]) as server:
        assert shown(root, reranking_function(server.url)) == ""


def test_switched_off_asks_nobody(root):
    with LlmServer([ranks(lambda text: 0.9)]) as server:
        assert NEAR in shown(root, reranking_function(server.url), rerank=False)
        assert server.requests == []
    assert Filter.Valves().rerank is False


@pytest.mark.parametrize(
    "step",
    [
        http_error(500),
        sends(b"<html>"),
        sends({"results": []}),
        sends({"results": [{"index": 0, "relevance_score": 0.5}]}),
        sends({"results": [{"index": 0, "relevance_score": "x"}] * 2}),
        sends({"results": [{"index": 0, "relevance_score": float("nan")}] * 2}),
        sends({"detail": "no"}),
    ],
)
def test_nonsense_keeps_the_plain_order(root, step, caplog):
    with LlmServer([step]) as server:
        ask = chat(root, reranking_function(server.url))
        first, second = asyncio.run(ask()), asyncio.run(ask())
    assert NEAR in first[0] and first == second
    assert len([r for r in caplog.records if "reranking" in r.message]) == 1
    assert len(server.requests) == 1


def test_silent_model_costs_one_chat_its_share(root, caplog):  # T-05
    with LlmServer([hangs(60)]) as server:
        ask = chat(root, reranking_function(server.url, 60), recall_timeout_ms=4_000)
        started = time.monotonic()
        first, second = asyncio.run(both(ask))
        assert time.monotonic() - started < 40
    assert NEAR in first[0] and first == second
    assert "did not answer in time" in caplog.text and len(server.requests) == 1


async def both(ask):
    return await ask(), await ask()


def test_missing_model_is_told_once(root, caplog):
    ask = chat(root, None)
    first, _ = asyncio.run(both(ask))
    assert NEAR in first[0]
    assert caplog.text.count("no reranking model: set one and switch hybrid search on") == 1


def test_error_never_repeats_the_question(root, caplog):
    def raises(query, documents, user=None):
        raise RuntimeError(f"cannot score {query}")

    assert NEAR in shown(root, raises)
    assert "RuntimeError" in caplog.text and "SN-4711" not in caplog.text


@given(st.lists(st.floats(-20, 20), min_size=1, max_size=8), st.data())
def test_scores_keep_their_scale(found, data):
    scores = np.linspace(0.9, 0.1, 12).astype(np.float32)
    places = data.draw(st.permutations(range(12)))[: len(found)]
    places = sorted(places, key=lambda place: -scores[place])
    changed = reordered(scores, places, found)
    others = [place for place in range(12) if place not in places]
    assert (changed[others] == scores[others]).all()
    kept = [float(changed[place]) for place in places if changed[place] > 0]
    assert sorted(kept, reverse=True) == [float(scores[p]) for p in places][: len(kept)]


@pytest.mark.parametrize(
    ("found", "shares"), [([0.0, 1.0], [0.0, 1.0]), ([-2.0, 2.0], [0.119, 0.881])]
)
def test_logits_become_probabilities(found, shares):
    assert probabilities(found) == pytest.approx(shares, abs=1e-3)


def test_follow_up_is_ranked_with_its_topic():
    assert rerank_query(Asked(("and May?",))) == "and May?"
    assert rerank_query(Asked(("and May?", "hours?\nand May?", "all"))) == "hours?\nand May?"
