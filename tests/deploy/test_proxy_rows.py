"""How much one add through the policy proxy may hold: rows, texts in a row, whole bodies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from lessons_loop.filter.events import COUNTS_LIMIT
from lessons_loop.filter.server import open_server, parse_server
from lessons_loop.filter.server_staging import add_rows
from lessons_loop.filter.store import APPEND_BATCH
from support.chroma_server import ChromaServer, prepare
from support.gate import candidate
from support.guarded import PERMITTED, TENANT, Guarded
from support.nginx import Proxy, send_raw, statuses
from support.processes import soon

LOOK, ADD = PERMITTED[0], PERMITTED[-1]
MOST_TEXTS, MOST_ROWS = 1024, 256
"""Names and values of one row together; rows of one add."""
BEARABLE = 5461
"""Values of one row that Chroma 1.5.9 takes; with one more its collection is lost (measured)."""


@pytest.fixture(autouse=True)
def _nothing_seen_yet(guarded: Guarded) -> None:
    guarded.seen.reached.clear()


def adding(metadata: object, rows: int = 1) -> bytes:
    """Return the body of an add of so many rows with this metadata."""
    ids = [f"row-{number}" for number in range(rows)]
    body = {"ids": ids, "embeddings": [[1.0]] * rows, "metadatas": [metadata] * rows}
    return json.dumps(body).encode()


def spread(texts: int, lists: int) -> dict[str, list[str]]:
    """Return metadata of so many texts, the names of its lists among them."""
    values = texts - lists
    share = [values // lists + (number < values % lists) for number in range(lists)]
    return {f"k{number}": ["v"] * size for number, size in enumerate(share)}


def sent(guarded: Guarded, body: bytes) -> list[int]:
    """Return what an add of this body is answered."""
    return guarded.send(f"{ADD} HTTP/1.1", body=body)


@given(st.integers(5, 40), st.integers(-3, 3))
@settings(max_examples=60, deadline=None)
def test_texts_of_a_row_are_counted_over_all_its_lists(
    guarded: Guarded, lists: int, beyond: int
) -> None:
    metadata = spread(MOST_TEXTS + beyond, lists)
    assert all(len(found) <= 256 for found in metadata.values())
    assert sent(guarded, adding(metadata)) == ([403] if beyond > 0 else [200])


def test_each_row_has_its_own_count(guarded: Guarded) -> None:
    assert sent(guarded, adding(spread(MOST_TEXTS, 8), APPEND_BATCH)) == [200]
    assert sent(guarded, adding({"counts": ['}{\\"' * 9] * COUNTS_LIMIT}, APPEND_BATCH)) == [200]


@pytest.mark.parametrize(("rows", "answer"), [(MOST_ROWS, 200), (MOST_ROWS + 1, 403)])
def test_rows_of_an_add_are_counted(guarded: Guarded, rows: int, answer: int) -> None:
    assert sent(guarded, adding({"a": 1}, rows)) == [answer]
    assert APPEND_BATCH <= MOST_ROWS


@pytest.mark.parametrize("name", ["Transfer-Encoding", "TRANSFER-ENCODING"])
def test_broken_chunks_are_a_refusal_like_any_other(guarded: Guarded, name: str) -> None:
    for call in (ADD, LOOK):
        head = f"{call} HTTP/1.1\r\nHost: x\r\n{name}: chunked\r\nConnection: close\r\n\r\n"
        answer = send_raw(guarded.proxy.port, f"{head}no chunk\r\n\r\n".encode())
        assert statuses(answer) == [403] and b"AuthorizationError" in answer
    assert guarded.seen.calls == []
    refused = {"method": "GET", "path": LOOK.removeprefix("GET "), "status": 403}
    assert soon(lambda: [line for line in guarded.proxy.told() if refused.items() <= line.items()])


@pytest.fixture
def chroma(tmp_path: Path) -> Iterator[ChromaServer]:
    """A server of the test's own: one of its collections is lost."""
    with ChromaServer(tmp_path / "chroma") as server:
        prepare(parse_server(server.base), "sql")
        yield server


def test_chroma_outlives_the_largest_row_that_passes(tmp_path: Path, chroma: ChromaServer) -> None:
    base = f"{TENANT}/databases/staging/collections"
    lost = adding(spread(BEARABLE + 41, 40))  # lists of 136: each for itself is short enough
    with Proxy(tmp_path, chroma.port) as proxy:
        client: Any = open_server(parse_server(proxy.base), "staging")
        with closing(client):
            whom = client.get_collection("sql-lessons-candidates", embedding_function=None).id
            for body, answer in ((lost, 403), (adding(spread(MOST_TEXTS, 40), 50), 201)):
                place = f"{proxy.base}{base}/{whom}/add"
                assert requests.post(place, data=body, timeout=60).status_code == answer
            add_rows(client, "sql-lessons-candidates", [candidate().to_record()])
            other = client.get_collection("sql-lessons-events", embedding_function=None).id
    direct = f"{chroma.base}{base}/{other}/add"
    answers = [requests.post(direct, data=body, timeout=60) for body in (lost, adding({"a": 1}))]
    assert [answer.status_code for answer in answers] == [500, 500]  # why the proxy refuses it
