"""A server that dies, freezes, comes back, is replaced or talks nonsense in mid-run.

Each run ends in bounded time with one line; the next one completes what was begun.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests

from lessons_loop.deploy.processes import free_port
from lessons_loop.filter.errors import AnswerTooLarge, StoreError, StoreMissing, StoreUnreachable
from lessons_loop.filter.server import open_server, parse_server
from lessons_loop.promote.errors import Paused
from lessons_loop.promote.session import open_gate
from lessons_loop.promote.store.archive import ensure_archive
from lessons_loop.promote.store.rows import Row, pack, read_rows, write_rows
from support.chroma_server import ChromaServer, fresh_url, prepare
from support.gate import (
    candidate,
    gate,
    promotion,
    put_on_server,
    raw_client,
    retirement,
    settings,
    shown,
    stage,
)
from support.relay import Call, Relay, Spoilt

SECONDS = 3.0
TOKEN = "fake-chroma-token-000"
FOUND = candidate()
OLD = candidate("Bound every read.", message="m0")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaServer]:
    """A server of this module's own: tests kill and freeze it, and start it again."""
    with ChromaServer(tmp_path_factory.mktemp("own-chroma")) as found:
        yield found


@pytest.fixture
def root(tmp_path: Path, server: ChromaServer) -> Path:
    """A store with one curated lesson and one candidate."""
    root = tmp_path / "store"
    put_on_server(root, fresh_url(server))
    with gate(root) as session:
        session.apply(promotion(session, OLD))
    stage(root, [FOUND])
    return root


def promote(
    root: Path, trouble: Callable[[str], object] = lambda _: None, seconds: float = 10.0
) -> None:
    """Promote the candidate and retire the old lesson, with trouble between the steps."""
    with open_gate(settings(root, call_seconds=seconds), checkpoint=trouble) as session:
        if FOUND.lesson.key not in session.curated:
            session.apply(promotion(session, FOUND))
        if OLD.lesson.key in session.curated:
            session.apply(retirement(session, OLD.lesson.key))


def assert_whole(root: Path) -> None:
    """Everything was carried out once, nothing is left over."""
    with gate(root) as session:
        assert list(session.curated) == [FOUND.lesson.key]
        assert list(session.archive) == [f"{OLD.lesson.key}-stale"]
        actions = [entry.action.value for entry in session.ledger.entries()]
        assert actions == ["init", "promote", "promote", "retire"]
        assert session.candidates() == [] and session.ledger.verify() == []
        session.nearest_vectors()
    assert shown(root).keys == (FOUND.lesson.key,)
    with raw_client(root, "gate") as client:
        assert [one.name for one in client.list_collections()] == ["sql-lessons-archive"]


def at(step: str, trouble: Callable[[], object]) -> Callable[[str], None]:
    met: list[str] = []

    def checkpoint(name: str) -> None:
        met.append(name)
        if name == step and met.count(name) == 1:
            trouble()

    return checkpoint


def one_line(error: Exception, root: Path) -> bool:
    text = str(error)
    return "\n" not in text and (root / "server.url").read_text() in text


# --- gone, frozen, back again


@pytest.mark.parametrize("step", ["draft", "ledger", "archive", "curated", "header", "staged"])
def test_killed_server_costs_one_line_and_nothing(
    root: Path, server: ChromaServer, step: str
) -> None:
    try:
        with pytest.raises(StoreUnreachable) as caught:
            promote(root, at(step, server.kill))
    finally:
        server.stop()
        server.start()
    assert one_line(caught.value, root)
    promote(root)
    assert_whole(root)


@pytest.mark.parametrize("step", ["ledger", "curated"])
def test_frozen_server_ends_the_run_in_bounded_time(
    root: Path, server: ChromaServer, step: str
) -> None:
    started = time.monotonic()
    try:
        with pytest.raises(StoreUnreachable, match="timed out") as caught:
            promote(root, at(step, server.freeze), SECONDS)
        assert time.monotonic() - started < 60
    finally:
        server.thaw()
    assert one_line(caught.value, root)
    promote(root)
    assert_whole(root)


def test_server_restarted_between_two_changes_is_no_trouble(
    root: Path, server: ChromaServer
) -> None:
    promote(root, at("cleared", lambda: (server.kill(), server.start())))
    assert_whole(root)


def test_opening_a_frozen_server_is_bounded(root: Path, server: ChromaServer) -> None:
    server.freeze()
    try:
        started = time.monotonic()
        with pytest.raises(StoreUnreachable, match="does not answer within 3 s"):
            promote(root, seconds=SECONDS)
        assert time.monotonic() - started < 20
    finally:
        server.thaw()


def test_pause_is_told_without_a_server(root: Path) -> None:
    (root / "state" / "paused").touch()
    (root / "server.url").write_text(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(Paused, match="lessons resume"), gate(root):
        pass


# --- replaced


def test_server_replaced_by_an_empty_one_is_never_filled(
    root: Path, server: ChromaServer, tmp_path: Path
) -> None:
    empty = ChromaServer(tmp_path / "empty", server.port)
    try:
        with pytest.raises(StoreError) as caught:
            promote(root, at("cleared", lambda: (server.kill(), empty.start())))
        assert one_line(caught.value, root)
        with pytest.raises(StoreMissing, match=r"database curated is missing, but the ledger in"):
            promote(root)
        assert [one["name"] for one in databases(empty, "default_tenant")] == ["default_database"]
    finally:
        empty.kill()
        server.start()
    promote(root)
    assert_whole(root)


def databases(server: ChromaServer, tenant: str) -> list[dict[str, Any]]:
    answer = requests.get(f"{server.base}/api/v2/tenants/{tenant}/databases", timeout=10)
    return list(answer.json())


def test_wrong_tenant_is_told_not_made(root: Path) -> None:
    url = (root / "server.url").read_text()
    (root / "server.url").write_text(f"{url}-typo")
    with pytest.raises(StoreMissing, match=r"is missing, but the ledger in"):
        promote(root)


@pytest.mark.parametrize(
    ("database", "name"), [("curated", "sql-lessons"), ("gate", "sql-lessons-archive")]
)
def test_collection_deleted_in_mid_run_stops_it(root: Path, database: str, name: str) -> None:
    def delete() -> None:
        with raw_client(root, database) as client:
            client.delete_collection(name)

    with pytest.raises(StoreMissing, match=name):
        promote(root, at("journal", delete))
    with pytest.raises(StoreMissing, match=rf"{name} is missing"):
        promote(root)
    with raw_client(root, database) as client:
        assert name not in [one.name for one in client.list_collections()]
    with raw_client(root, "staging") as client:
        assert client.get_collection("sql-lessons-candidates").count() == 1


def test_staging_deleted_in_mid_run_loses_no_decision(root: Path) -> None:
    def delete() -> None:
        with raw_client(root, "staging") as client:
            client.delete_collection("sql-lessons-candidates")

    promote(root, at("header", delete))
    assert_whole(root)


# --- slow, wrong, hostile answers


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
    root: Path, server: ChromaServer, database: str, field: str, change: Callable[[Any], Any]
) -> None:
    direct = (root / "server.url").read_text()
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
                session.apply(promotion(session, candidate()))
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
