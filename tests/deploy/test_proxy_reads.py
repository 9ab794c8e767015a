"""What a read through the policy proxy may ask of curated: plain metadata, never texts."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from lessons_loop.filter.server import open_server, parse_server
from support.chroma_server import COSINE, ChromaServer, fresh_url, prepare
from support.guarded import PERMITTED, Guarded
from support.nginx import Proxy

QUERY, GET = PERMITTED[-5], PERMITTED[-4]
ON_TEXTS = ("$contains", "$not_contains", "$regex", "$not_regex")
PLAIN = ("$eq", "$ne", "$gt", "$in")
NESTED = {"$or": [{"n": 1}, {"$and": [{"status": "a"}, {"#document": {"$contains": "x"}}]}]}


@pytest.fixture(autouse=True)
def _nothing_seen_yet(guarded: Guarded) -> None:
    guarded.seen.reached.clear()


def answers(guarded: Guarded, where: object, indent: int | None = None) -> list[list[int]]:
    """Return what both reads with this clause are answered."""
    asked = {"query_embeddings": [[1.0]], "where": where}
    body = json.dumps(asked, indent=indent).encode()
    return [guarded.send(f"{call} HTTP/1.1", body=body) for call in (GET, QUERY)]


@pytest.mark.parametrize("operator", [*ON_TEXTS, *PLAIN])
@pytest.mark.parametrize("name", ["#document", "chroma:document", "status"])
def test_clauses_are_refused(guarded: Guarded, name: str, operator: str) -> None:
    """How long one takes tells how many rows of all databases it fits: texts and metadata alike."""
    for clause in ({name: {operator: "x"}}, {name: "x"}, {"$and": [{name: "x"}]}, NESTED):
        for indent in (None, 1):
            assert answers(guarded, clause, indent) == [[403], [403]]
    assert guarded.seen.calls == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.from_regex(r"[#$:a-z ]{0,9}", fullmatch=True),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.just("n"), inner, max_size=2),
    max_leaves=6,
)


@given(JSON)
@settings(max_examples=200, deadline=None)
def test_whatever_holds_an_object_is_refused(guarded: Guarded, where: object) -> None:
    guarded.seen.reached.clear()
    expected = 403 if "{" in json.dumps(where) else 200
    assert answers(guarded, where) == [[expected], [expected]]


def test_chroma_would_search_texts_and_is_not_asked(
    tmp_path: Path, chroma_server: ChromaServer
) -> None:
    address = parse_server(fresh_url(chroma_server))
    prepare(address)
    client: Any = open_server(address, "curated")
    with closing(client):
        made = client.create_collection("texts", configuration=COSINE, embedding_function=None)
        made.add(ids=["a", "b"], embeddings=[[1.0], [1.0]], documents=["found it", "other"])
    place = f"/api/v2/tenants/{address.tenant}/databases/curated/collections/{made.id}/get"
    body = {"where": {"#document": {"$contains": "found"}}}
    there = requests.post(f"{chroma_server.base}{place}", json=body, timeout=10)
    assert there.json()["ids"] == ["a"]  # this is why the proxy refuses it
    with Proxy(tmp_path, chroma_server.port, tenant=address.tenant) as proxy:
        assert requests.post(f"{proxy.base}{place}", json=body, timeout=10).status_code == 403
        assert len(requests.post(f"{proxy.base}{place}", json={}, timeout=10).json()["ids"]) == 2
