"""The reranking model set in a real Open WebUI decides which lesson is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.llm_server import LlmServer
from support.openwebui import MODEL, PLUGIN, VALVES, Server
from support.provider import system_text
from support.reranker import ranks

CONFIG = "/api/v1/retrieval/config/update"
GADGETS = "How do I count the gadgets in the warehouse?"
ADVICE = "gadget_ledger"


def rerank_with(openwebui: Server, url: str) -> None:
    """Set an external reranking model, or none for an empty address."""
    settings: dict[str, Any] = {
        "ENABLE_RAG_HYBRID_SEARCH": bool(url),
        "RAG_RERANKING_ENGINE": "external" if url else "",
        "RAG_RERANKING_MODEL": "fake-rerank" if url else "",
        "RAG_EXTERNAL_RERANKER_URL": url,
    }
    openwebui.admin.ask("POST", CONFIG, settings)


@pytest.fixture
def patient(openwebui: Server) -> Iterator[Server]:
    openwebui.admin.set_valves("functions", PLUGIN, VALVES | {"rerank": True})
    yield openwebui
    rerank_with(openwebui, "")


@pytest.mark.parametrize(("score", "shown"), [(0.9, True), (0.0, False)])
def test_model_decides_what_is_shown(patient: Server, score: float, shown: bool) -> None:
    with LlmServer([ranks(lambda text: score)]) as reranker:
        rerank_with(patient, reranker.url)
        assert patient.admin.chat(MODEL, GADGETS).status_code == 200
        assert [request.body["query"] for request in reranker.requests] == [GADGETS]
    (body,) = patient.provider.received(GADGETS)
    assert (ADVICE in system_text(body)) is shown


def test_without_a_model_the_plain_order_stays(patient: Server) -> None:
    assert patient.admin.chat(MODEL, GADGETS).status_code == 200
    (body,) = patient.provider.received(GADGETS)
    assert ADVICE in system_text(body)
