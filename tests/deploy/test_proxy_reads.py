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
PLAIN = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
ON_DOCUMENTS = ("$contains", "$not_contains", "$regex", "$not_regex")
NESTED = {"$or": [{"n": 1}, {"$and": [{"status": "a"}, {"#document": {"$contains": "x"}}]}]}


@pytest.fixture(autouse=True)
def _nothing_seen_yet(guarded: Guarded) -> None:
    guarded.seen.reached.clear()


def answers(guarded: Guarded, where: object, indent: int | None = None) -> list[list[int]]:
    """Return what both reads with this clause are answered."""
    asked = {"query_embeddings": [[1.0]], "where": where}
    body = json.dumps(asked, indent=indent).encode()
    return [guarded.send(f"{call} HTTP/1.1", body=body) for call in (GET, QUERY)]


@pytest.mark.parametrize("operator", ON_DOCUMENTS)
@pytest.mark.parametrize("name", ["#document", "status"])
@pytest.mark.parametrize("indent", [None, 1])
def test_clause_on_texts_is_refused(
    guarded: Guarded, name: str, operator: str, indent: int | None
) -> None:
    """Under any name: earlier releases of Chroma took these for clauses on documents."""
    assert answers(guarded, {name: {operator: "x"}}, indent) == [[403], [403]]
    assert guarded.seen.calls == []


def test_clause_on_texts_is_refused_inside_others(guarded: Guarded) -> None:
    assert answers(guarded, NESTED) == [[403], [403]]
    assert guarded.seen.calls == []


@pytest.mark.parametrize("operator", PLAIN)
def test_plain_operators_pass(guarded: Guarded, operator: str) -> None:
    several = {"$or": [{"n": {"$in": [1, 2]}}, {"n": {"$nin": [3]}}]}
    assert answers(guarded, {"$and": [{"n": {operator: 1}}, several]}) == [[200], [200]]


OPERATORS = {*PLAIN, "$in", "$nin", "$and", "$or"}
MARKED = st.from_regex(r"[#$][A-Za-z_]{0,20}", fullmatch=True).filter(lambda n: n not in OPERATORS)


@given(MARKED, st.sampled_from(["x", {"$eq": "x"}, ["x"], 1]))
@settings(max_examples=100, deadline=None)
def test_no_reserved_name_but_the_plain_operators_passes(
    guarded: Guarded, name: str, value: object
) -> None:
    guarded.seen.reached.clear()
    for where in ({name: value}, {"n": {name: value}}, {"$and": [{"n": 1}, {name: value}]}):
        assert answers(guarded, where) == [[403], [403]]
    assert guarded.seen.calls == []


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
