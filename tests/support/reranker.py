"""A local reranking endpoint, and a function that asks it as Open WebUI's own does."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any

import requests

from support.llm_server import Received, Step, send


def ranks(score: Callable[[str], float]) -> Step:
    """Answer with a score per document, in an order of the endpoint's own."""

    def step(handler: BaseHTTPRequestHandler, received: Received) -> None:
        documents = received.body["documents"]
        results = [
            {"index": at, "relevance_score": score(text)} for at, text in enumerate(documents)
        ]
        send(handler, json.dumps({"results": results[::-1]}).encode())

    return step


def reranking_function(url: str, seconds: float | None = None) -> Callable[..., Any]:
    """Return what stands in app.state.RERANKING_FUNCTION with the engine `external`."""

    def function(query: str, documents: Sequence[Any], user: object = None) -> list[float] | None:
        texts = [document.page_content for document in documents]
        body = {"model": "m", "query": query, "documents": texts, "top_n": len(texts)}
        try:
            answer = requests.post(url, json=body, timeout=seconds)
            answer.raise_for_status()
            results = sorted(answer.json()["results"], key=lambda one: one["index"])
            return [one["relevance_score"] for one in results]
        except Exception:
            return None

    return function
