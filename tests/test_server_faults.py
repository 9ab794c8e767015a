"""A server that dies, freezes, comes back or is replaced in mid-run.

Each run ends in bounded time with one line; the next one completes what was begun.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from lessons_loop.deploy.processes import free_port
from lessons_loop.filter.errors import StoreError, StoreMissing, StoreUnreachable
from lessons_loop.promote.errors import Paused
from support.chroma_server import ChromaServer
from support.gate import (
    gate,
    raw_client,
)
from support.promoting import assert_whole, at, one_line, promote, put_waiting

SECONDS = 3.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaServer]:
    """A server of this module's own: tests kill and freeze it, and start it again."""
    with ChromaServer(tmp_path_factory.mktemp("own-chroma")) as found:
        yield found


@pytest.fixture
def root(tmp_path: Path, server: ChromaServer) -> Path:
    """A store with one curated lesson and one candidate."""
    return put_waiting(tmp_path / "store", server)


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
