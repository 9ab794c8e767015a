"""A server that answers slowly, wrongly or much in mid-run: one line, the next run completes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lessons_loop.filter.errors import AnswerTooLarge, StoreError, StoreUnreachable
from lessons_loop.filter.server import open_server, parse_server
from lessons_loop.promote.store.archive import ensure_archive
from lessons_loop.promote.store.rows import Row, pack, read_rows, write_rows
from support.chroma_server import ChromaServer, prepare
from support.gate import (
    candidate,
    gate,
    promotion,
    raw_client,
    settings,
    stage,
)
from support.promoting import assert_whole, one_line, promote, put_waiting
from support.relay import Call, Relay, Spoilt

SECONDS = 3.0
NUMBERS = count()


@pytest.fixture
def root(tmp_path: Path, server: ChromaServer) -> Path:
    """A store with one curated lesson and one candidate."""
    return put_waiting(tmp_path / "store", server)


@pytest.fixture
def server(chroma_server: ChromaServer) -> ChromaServer:
    """The session's: here it is only talked to."""
    return chroma_server


TOKEN = "fake-chroma-token-000"


# --- slow, wrong, hostile answers
@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory, chroma_server: ChromaServer) -> Path:
    """A store for many misreadings: each leaves it sound, with a lesson more or not."""
    return put_waiting(tmp_path_factory.mktemp("grown") / "store", chroma_server)


def through(root: Path, relay: Relay) -> None:
    """Let the store be reached through a relay."""
    tenant = (root / "server.url").read_text().partition("?")[2]
    (root / "server.url").write_text(f"{relay.base}?{tenant}")


def spoiling(method: str, part: str, answer: Spoilt, skip: int) -> Callable[[Call], Spoilt | None]:
    """Spoil calls of one sort, all from the `skip`th on."""
    met = [0]

    def spoil(call: Call) -> Spoilt | None:
        if call.method != method or part not in call.path:
            return None
        met[0] += 1
        return answer if met[0] > skip else None

    return spoil


NONSENSE = (
    Spoilt(200, b"<html><body>Sign in</body></html>"),
    Spoilt(200, b'{"nonsense": true}'),
    Spoilt(500, b"<html>\n<h1>Internal error</h1>\n</html>"),
    Spoilt(500, b'{"error": "InternalError", "message": "disk\\nfull"}'),
    Spoilt(200, b'{"ids": ["a'),
    Spoilt(200, b"[]"),
    Spoilt(403, b'{"error": "forbidden"}'),
    Spoilt(413, b"length limit exceeded"),
    Spoilt(307, b"", (("Location", "http://127.0.0.1:9/"),)),
)


@pytest.mark.parametrize(
    ("method", "part", "skip", "answer"),
    [
        *(("POST", "/upsert", 0, answer) for answer in NONSENSE),
        *(("POST", "/get", 6, answer) for answer in NONSENSE[:3]),
        *(("PUT", "/coll", 0, answer) for answer in NONSENSE[:3]),
    ],
)
def test_nonsense_ends_in_one_line_and_is_made_good(
    root: Path, server: ChromaServer, method: str, part: str, skip: int, answer: Spoilt
) -> None:
    direct = (root / "server.url").read_text()
    with Relay(server.base, spoil=spoiling(method, part, answer, skip)) as relay:
        through(root, relay)
        with pytest.raises(StoreError) as caught:
            promote(root)
        assert one_line(caught.value, root) and len(str(caught.value)) < 600
    (root / "server.url").write_text(direct)
    promote(root)
    assert_whole(root)


@pytest.mark.parametrize("database", ["curated", "gate", "staging"])
@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("embeddings", lambda rows: None),
        ("embeddings", lambda rows: rows[1:]),
        ("embeddings", lambda rows: [None for _ in rows]),
        ("embeddings", lambda rows: [["a"] for _ in rows]),
        ("ids", lambda rows: rows[1:]),
        ("ids", lambda rows: "rows"),
        ("ids", lambda rows: [7 for _ in rows]),
        ("documents", lambda rows: None),
        ("documents", lambda rows: rows[1:]),
        ("metadatas", lambda rows: None),
        ("metadatas", lambda rows: ["x" for _ in rows]),
    ],
)
def test_misshapen_rows_are_errors_of_ours(
    grown: Path, server: ChromaServer, database: str, field: str, change: Callable[[Any], Any]
) -> None:
    root, direct = grown, (grown / "server.url").read_text()
    other = candidate(f"Bound read number {next(NUMBERS)}.")
    with Relay(server.base) as relay:
        inner = relay.answer

        def answer(call: Call, query: str, body: bytes) -> Spoilt:
            found = inner(call, query, body)
            if f"/{database}/" not in call.path or not call.path.endswith("/get"):
                return found
            page = json.loads(found.body)
            page[field] = change(page[field]) if page[field] is not None else None
            return found._replace(body=json.dumps(page).encode())

        relay.answer = answer  # type: ignore[method-assign]
        through(root, relay)
        for dry_run in (True, False):
            with suppress(StoreError), gate(root, dry_run=dry_run) as session:
                session.nearest_vectors()
                session.candidates()
                session.apply(promotion(session, other))
    (root / "server.url").write_text(direct)
    with gate(root) as session:
        assert session.ledger.verify() == [] and session.nearest_vectors()


def test_slow_server_is_waited_for(root: Path, server: ChromaServer) -> None:
    with Relay(server.base, delay=0.05) as relay:
        through(root, relay)
        promote(root)
        assert_whole(root)


def test_too_slow_server_is_given_up(root: Path, server: ChromaServer) -> None:
    direct = (root / "server.url").read_text()
    slow = Spoilt(200, b"{}" * 40, trickle=0.1)
    with Relay(server.base, spoil=spoiling("POST", "/upsert", slow, 0)) as relay:
        through(root, relay)
        started = time.monotonic()
        with pytest.raises(StoreUnreachable, match="took more than 3 s"):
            promote(root, seconds=SECONDS)
        assert time.monotonic() - started < 30
    (root / "server.url").write_text(direct)
    promote(root)
    assert_whole(root)


def test_token_goes_along_and_is_never_shown(
    root: Path, server: ChromaServer, monkeypatch: pytest.MonkeyPatch
) -> None:  # T-47
    monkeypatch.setenv("LESSONS_CHROMA_TOKEN", TOKEN)
    echo = Spoilt(500, f'{{"error": "x", "message": "Bearer {TOKEN} is wrong"}}'.encode())
    with Relay(server.base, spoil=spoiling("POST", "/upsert", echo, 0)) as relay:
        through(root, relay)
        with pytest.raises(StoreError) as caught:
            promote(root)
        assert {call.token for call in relay.calls} == {f"Bearer {TOKEN}"}
    assert TOKEN not in str(caught.value) + repr(settings(root))


# --- sizes
def test_rows_beyond_the_payload_limit_go_in_parts(root: Path) -> None:
    rows = [
        Row(
            id=f"r{n}",
            document="x" * 100_000,
            metadata={"n": n},
            vector=pack(np.ones(1, np.float32)),
        )
        for n in range(450)  # 45 MB; one call may carry 40 MiB
    ]
    with raw_client(root, "gate") as client:
        collection = ensure_archive(client, "sql", written=True)
        write_rows(collection, rows, {})
        assert collection.count() == 450
        assert sum(len(page.ids) for page in read_rows(collection)) == 450


@pytest.mark.parametrize(("limit", "rows"), [(150_000, 60), (4_000, 0)])
def test_huge_rows_are_read_in_smaller_pages(store_url: str, limit: int, rows: int) -> None:
    prepare(parse_server(store_url), "sql")
    client: Any = open_server(parse_server(store_url), "staging", answer_limit=limit)
    with closing(client):
        collection = client.get_collection("sql-lessons-events", embedding_function=None)
        ids = [f"row-{number}" for number in range(60)]
        collection.add(ids=ids, documents=["x" * 5000] * 60, embeddings=[[1.0]] * 60)
        if rows:
            assert [id_ for page in read_rows(collection) for id_ in page.ids] == ids
        else:
            with pytest.raises(AnswerTooLarge, match="sql-lessons-events"):
                next(read_rows(collection))


def test_dry_run_sees_more_than_one_page(root: Path) -> None:
    stage(root, [candidate(f"Use table {n}.", message=f"p{n}") for n in range(1100)])
    with gate(root, dry_run=True) as session:
        assert len(session.candidates()) == 1101
