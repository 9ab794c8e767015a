"""Which bodies the policy proxy lets through: rows as the plugin writes them, plain reads.

Each refused row or clause was seen to stop a real Chroma 1.5.9: for all databases, or its
collection for good.
"""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import orjson
import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from lessons_loop.filter.events import Rating, Tally, Usage
from lessons_loop.filter.models import Candidate, Evidence, Lesson, Record
from lessons_loop.filter.server import open_server, parse_server
from lessons_loop.filter.server_staging import add_rows
from support.chroma_server import ChromaServer, free_port, fresh_url, prepare
from support.gate import candidate
from support.guarded import PERMITTED, Guarded
from support.nginx import Proxy, send_raw, statuses
from support.processes import soon

QUERY, GET, ADD = PERMITTED[-5], PERMITTED[-4], PERMITTED[-1]
ROW: dict[str, Any] = {"ids": ["a"], "embeddings": [[1.0]], "documents": ["d"]}


@pytest.fixture(autouse=True)
def _nothing_seen_yet(guarded: Guarded) -> None:
    guarded.seen.reached.clear()


def row(metadata: object) -> bytes:
    """Return the body of an add with this metadata."""
    return json.dumps({"ids": ["a"], "embeddings": [[1.0]], "metadatas": [metadata]}).encode()


HOSTILE_ROWS = {
    "writer of all databases stops": row({"chroma:document": 5}),
    "the same, escaped": row({"chroma:document": 5}).replace(b"chroma:", b"chroma\\u003a"),
    "all escaped": row({"chroma:document": 5}).replace(b"c", b"\\u0063"),
    "the same in a list": b'[["a"],[[1.0]],null,null,[{"chroma:document":5}]]',
    "collection lost by names": row({f"{'k' * n}": 1 for n in range(1, 42)}),
    "collection lost by a list": row({"a": ["x"] * 257}),
    "numbers in a list": row({"a": [1] * 20_000}),
    "sparse vector": row({"a": {"#type": "sparse_vector", "indices": [1], "values": [1.0]}}),
    "reserved name": row({"$and": 1}),
    "deep": b"[" * 100_000,
    "unknown field": json.dumps(ROW | {"where": {"a": 1}}).encode(),
    "another field's name escaped": row({"a": 1}).replace(b"meta", b"m\\u0065ta"),
    "ids too long to ask by": json.dumps(ROW | {"ids": ["i" * 129]}).encode(),
    "id with NUL": json.dumps(ROW | {"ids": ["i\0"]}).encode(),
    "no object": b"[]",
    "two objects": row({"a": 1}) * 2,
    "text without an end": row({"a": "b"})[:-5],
    "quotes without an end": b'{"ids":["' + b'","' * 600_000,
    "backslashes without an end": b'{"ids":["' + b"\\" * 1_900_001 + b'"]}',
    "byte order mark": b"\xef\xbb\xbf" + row({"a": 1}),
    "UTF-16": row({"a": 1}).decode().encode("utf-16"),
}


@pytest.mark.parametrize("body", HOSTILE_ROWS.values(), ids=HOSTILE_ROWS.keys())
def test_rows_of_another_shape_are_refused(guarded: Guarded, body: bytes) -> None:
    assert guarded.send(f"{ADD} HTTP/1.1", body=body) == [403]
    assert guarded.seen.calls == []


PLAIN_READS = [
    {},
    {"where": None, "where_document": None},
    {"query_embeddings": [[1.0], [2.0], [3.0]]},
    {"ids": ["a", "b"], "include": ["documents"], "limit": 5, "offset": 5},
]
HEAVY_READS = [
    {"where_document": {"$contains": "x"}},
    {"where": {"$or": [{"n": n} for n in range(16)]}},
    {"where": {"$or": [{"n": n} for n in range(5_000)]}},
    {"query_embeddings": [[1.0]] * 18},
    {"query_embeddings": [[1.0]] * 9, "where": {"$or": [{"n": n} for n in range(8)]}},
    {"ids": ['"']},
]


@pytest.mark.parametrize("asked", PLAIN_READS)
def test_plain_reads_pass(guarded: Guarded, asked: dict[str, Any]) -> None:
    for call in (GET, QUERY):
        for separators in ((",", ":"), (", ", ": ")):
            body = json.dumps({"query_embeddings": [[1.0]]} | asked, separators=separators).encode()
            assert guarded.send(f"{call} HTTP/1.1", body=body) == [200]


@pytest.mark.parametrize("asked", HEAVY_READS, ids=range(len(HEAVY_READS)))
def test_reads_that_stop_chroma_or_tell_of_texts_are_refused(
    guarded: Guarded, asked: dict[str, Any]
) -> None:
    for call in (GET, QUERY):
        for spaces in (None, 1):
            body = json.dumps({"query_embeddings": [[1.0]]} | asked, indent=spaces).encode()
            assert guarded.send(f"{call} HTTP/1.1", body=body) == [403]
    assert guarded.seen.calls == []


def test_clause_on_documents_is_refused_escaped_too(guarded: Guarded) -> None:
    body = json.dumps({"where_document": {"$contains": "x"}}).replace("wh", "\\u0077h").encode()
    assert guarded.send(f"{GET} HTTP/1.1", body=body) == [403]


def test_calls_on_rows_without_a_body_are_refused(guarded: Guarded) -> None:
    for call in (GET, QUERY, ADD):
        head = f"{call} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        assert statuses(send_raw(guarded.proxy.port, head.encode())) == [403]
    assert guarded.seen.calls == []


@pytest.mark.parametrize("gap", ["", " ", "\t\r\n "])
def test_many_vectors_are_told_whatever_is_between(guarded: Guarded, gap: str) -> None:
    few, many = (f"{gap},{gap}".join([f"[1.0]{gap}"] * count) for count in (17, 18))
    for vectors, answer in ((few, 200), (many, 403)):
        body = f'{{"query_embeddings":{gap}[{vectors}],{gap}"ids":null}}'.encode()
        assert guarded.send(f"{QUERY} HTTP/1.1", body=body) == [answer]


def test_large_read_is_refused(guarded: Guarded) -> None:
    body = json.dumps({"ids": ["x" * 20] * 8_000}).encode()
    assert guarded.send(f"{GET} HTTP/1.1", body=body) == [413]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
VALUES = st.one_of(
    TEXTS,
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.lists(TEXTS, min_size=1, max_size=9),
)
METADATA = st.dictionaries(
    st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True), VALUES, max_size=30
)
IDS = st.from_regex(r"[A-Za-z0-9_.:-]{1,128}", fullmatch=True)
RECORDS = st.builds(Record, IDS, TEXTS, METADATA)


def as_sent(records: list[Record]) -> bytes:
    """Return the body Chroma's client sends for rows of ours."""
    return orjson.dumps(
        {
            "ids": [one.id for one in records],
            "embeddings": ["AACAPw=="] * len(records),
            "metadatas": [dict(one.metadata) or None for one in records],
            "documents": [one.document for one in records],
            "uris": None,
        }
    )


@given(st.lists(RECORDS, min_size=1, max_size=5))
@settings(max_examples=300, deadline=None)
def test_any_row_of_ours_passes_unchanged(guarded: Guarded, records: list[Record]) -> None:
    guarded.seen.reached.clear()
    body = as_sent(records)
    assert guarded.send(f"{ADD} HTTP/1.1", body=body) == [200]
    assert [one.body for one in guarded.seen.calls] == [body]


@given(
    st.dictionaries(
        st.sampled_from(["chroma:document", "#document", "a b", "", "$in", "é"]), VALUES, min_size=1
    )
)
@settings(max_examples=100, deadline=None)
def test_no_row_with_another_name_passes(guarded: Guarded, metadata: dict[str, Any]) -> None:
    guarded.seen.reached.clear()
    for body in (row(metadata), orjson.dumps(json.loads(row(metadata)))):
        assert guarded.send(f"{ADD} HTTP/1.1", body=body) == [403]
    assert guarded.seen.calls == []


def test_full_batch_of_the_worst_rows_passes(guarded: Guarded) -> None:
    worst = Record("i" * 90, '"' * 400, {"excerpt": "\x01" * 4_500, "keys": ["k" * 80] * 30})
    body = as_sent([worst] * 50)
    assert len(body) > 1_450_000
    assert guarded.send(f"{ADD} HTTP/1.1", body=body) == [200]


def test_names_of_all_our_rows_are_taken(guarded: Guarded) -> None:
    kinds = (Candidate, Evidence, Lesson, Usage, Rating, Tally)
    names = {name for kind in kinds for name in kind.model_fields}
    fields = dict.fromkeys(names | {"evidence_kind", "type"}, "x")
    assert len(fields) < 40
    assert guarded.send(f"{ADD} HTTP/1.1", body=row(fields)) == [200]


def test_one_client_has_sixteen_adds_open_and_may_still_read(guarded: Guarded) -> None:
    head = f"{ADD} HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n".encode() + b"{" * 99_999
    with ExitStack() as stack:
        for _ in range(16):
            wire = socket.create_connection(("127.0.0.1", guarded.proxy.port))
            stack.enter_context(closing(wire)).sendall(head)
        assert soon(lambda: guarded.send(f"{ADD} HTTP/1.1") == [429], 40)
        assert guarded.send(f"{GET} HTTP/1.1") == [200]


def test_all_clients_together_have_twenty_four_adds_open(guarded: Guarded) -> None:
    """Else a few pods with a changed plugin fill the proxy's memory, and it is killed."""
    head = f"{ADD} HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n".encode() + b"{" * 99_999
    with ExitStack() as stack:
        for number in range(24):
            own = (f"127.0.0.{2 + number % 3}", 0)
            wire = socket.create_connection(("127.0.0.1", guarded.proxy.port), source_address=own)
            stack.enter_context(closing(wire)).sendall(head)
        assert soon(lambda: guarded.send(f"{ADD} HTTP/1.1") == [429], 40)
        assert guarded.send(f"{GET} HTTP/1.1") == [200]


def test_refusals_need_no_address_of_the_proxy_s_own(guarded: Guarded, tmp_path: Path) -> None:
    """Who lets it listen elsewhere changes that line alone."""
    proxy = Proxy(tmp_path, guarded.seen.port)
    rules, other = proxy.folder / "nginx.conf", free_port()
    line = f"listen 127.0.0.1:{proxy.port}"
    rules.write_text(rules.read_text("utf-8").replace(line, f"listen 127.0.0.1:{other}"), "utf-8")
    proxy.port = other
    with proxy:
        moved = Guarded(proxy, guarded.seen)
        assert moved.send(f"{ADD} HTTP/1.1", body=row({"chroma:document": "x"})) == [403]
        assert moved.send(f"{ADD} HTTP/1.1", body=row({"a": "x"})) == [200]


def test_chroma_outlives_rows_and_clauses_that_end_it(
    tmp_path: Path, chroma_server: ChromaServer
) -> None:
    address = parse_server(fresh_url(chroma_server))
    prepare(address, "sql")
    with Proxy(tmp_path, chroma_server.port, tenant=address.tenant) as proxy:
        client: Any = open_server(parse_server(f"{proxy.base}?tenant={address.tenant}"), "staging")
        with closing(client):
            staged = client.get_collection("sql-lessons-candidates", embedding_function=None)
            place = f"{proxy.base}/api/v2/tenants/{address.tenant}/databases/staging/collections"
            for body in HOSTILE_ROWS.values():
                answer = requests.post(f"{place}/{staged.id}/add", data=body, timeout=60)
                assert answer.status_code == 403
            add_rows(client, "sql-lessons-candidates", [candidate().to_record()])
    refused = [line["path"] for line in proxy.told()]
    assert sum(path.startswith("/refuse/") for path in refused) == len(HOSTILE_ROWS)
