"""The lock on a server: one holder at a time, whatever becomes of it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lessons_loop.filter.server import open_server, parse_server
from lessons_loop.promote.errors import LockHeld, LockLost
from lessons_loop.promote.session import open_gate
from lessons_loop.promote.store.curated import Header
from lessons_loop.promote.store.rows import find_collection
from lessons_loop.promote.store.server_lock import Holder, process_start, server_lock, this_place
from support.gate import (
    candidate,
    gate,
    on_server,
    promotion,
    put_on_server,
    raw_client,
    server_url,
    settings,
)
from support.processes import soon

DRIVER = Path(__file__).parent / "support" / "lock_driver.py"
TERM = 6.0
"""Renewed every 2 s; a busy machine may hold a process up for seconds."""


@pytest.fixture
def url(tmp_path: Path, store_url: str) -> str:
    put_on_server(tmp_path / "store", store_url)
    return store_url


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    with closing(open_server(parse_server(url), "gate")) as found:  # type: ignore[type-var]
        yield found


def driver(url: str, *arguments: object) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, str(DRIVER), url, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    return child


def said(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


@pytest.fixture
def holder(url: str) -> Iterator[subprocess.Popen[str]]:
    child = driver(url, TERM)
    assert said(child) == "held"
    yield child
    child.kill()
    child.communicate()


def hold(url: str, client: Any, term: float = TERM) -> Any:
    return server_lock(lambda: open_server(parse_server(url), "gate"), client, "sql", term)


def names(client: Any) -> list[str]:
    return [found.name for found in client.list_collections()]


def abandon(client: Any, **fields: Any) -> Any:
    """Leave a lock behind as a gate of another host that is gone does."""
    past = datetime.now(UTC) - timedelta(hours=1)
    note = {"nonce": "n", "expires": past.isoformat(), "pid": 1, "host": "else", "place": "other"}
    return client.create_collection("sql-lock", metadata=note | fields, embedding_function=None)


def test_lock_is_gone_after_use(url: str, client: Any) -> None:
    with hold(url, client) as lock:
        assert names(client) == ["sql-lock"]
        lock.check()
    assert names(client) == []


def test_live_lock_names_holder_and_expiry(
    url: str, client: Any, holder: subprocess.Popen[str]
) -> None:
    expected = rf"sql-lock is held by `lock_driver.* \(pid {holder.pid} on .*, good until 20"
    with pytest.raises(LockHeld, match=expected), hold(url, client):
        pass
    assert names(client) == ["sql-lock"]


def expiry(client: Any) -> datetime:
    """Return until when the lock is good, as it says itself."""
    metadata = client.get_collection("sql-lock", embedding_function=None).metadata
    return datetime.fromisoformat(metadata["expires"])


def test_lock_is_renewed_while_its_holder_works(
    url: str, client: Any, holder: subprocess.Popen[str]
) -> None:
    first = expiry(client)
    assert soon(lambda: expiry(client) > first + timedelta(seconds=TERM))
    with pytest.raises(LockHeld), hold(url, client):
        pass


def test_killed_holder_of_this_host_is_replaced_at_once(
    url: str, client: Any, holder: subprocess.Popen[str]
) -> None:
    holder.kill()
    holder.wait()
    with hold(url, client, 3600.0) as lock:
        lock.check()
    assert names(client) == []


def test_frozen_holder_is_replaced_after_its_term_and_stops(
    url: str, tmp_path: Path, client: Any, holder: subprocess.Popen[str]
) -> None:
    holder.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + 120
    while True:
        try:
            with hold(url, client, 2 * TERM) as lock:
                holder.send_signal(signal.SIGCONT)
                time.sleep(TERM / 2)  # it wakes up, and must not renew ours
                holder.communicate(timeout=60)  # it ends, and must not remove ours
                lock.check()
                break
        except LockHeld:
            assert time.monotonic() < deadline
            time.sleep(0.2)
    assert names(client) == []


def test_abandoned_lock_of_another_host_is_replaced(url: str, client: Any) -> None:
    abandon(client)
    with hold(url, client) as lock:
        lock.check()
        assert names(client) == ["sql-lock"]


def test_unexpired_lock_of_another_host_stays(url: str, client: Any) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=30)
    abandon(client, expires=soon.isoformat())
    with pytest.raises(LockHeld, match="on else"), hold(url, client):
        pass


@pytest.mark.parametrize("metadata", [None, {"expires": "never"}, {"nonce": 5, "pid": "x"}])
def test_lock_that_is_none_of_ours_stays(url: str, client: Any, metadata: Any) -> None:
    client.create_collection("sql-lock", metadata=metadata, embedding_function=None)
    with pytest.raises(LockHeld, match="something that is no gate of ours"), hold(url, client):
        pass
    assert names(client) == ["sql-lock"]


def test_taken_lock_is_noticed_before_writing(url: str, client: Any) -> None:
    with hold(url, client) as lock:
        client.get_collection("sql-lock", embedding_function=None).modify(name="aside")
        with pytest.raises(LockLost, match="it is gone"):
            lock.check()
        theirs = abandon(client, expires=(datetime.now(UTC) + timedelta(hours=1)).isoformat())
    assert client.get_collection("sql-lock", embedding_function=None).id == theirs.id


@on_server
def test_gate_that_lost_its_lock_writes_nothing(root: Path) -> None:
    with (
        pytest.raises(LockLost, match="nothing more is written, run again"),
        gate(root) as session,
    ):
        change = promotion(session, candidate())
        session.clients.gate.delete_collection("sql-lock")
        session.apply(change)
    with gate(root) as session:
        assert dict(session.curated) == {}
        assert [e.action for e in session.ledger.entries()] == ["init"]


@on_server
def test_lock_lost_between_rows_and_header_leaves_the_header(root: Path) -> None:
    def lose(step: str) -> None:
        if step == "removed" and armed:
            armed[0].clients.gate.delete_collection("sql-lock")
            armed.clear()

    armed: list[Any] = []
    with pytest.raises(LockLost), open_gate(settings(root), checkpoint=lose) as session:
        armed.append(session)
        session.apply(promotion(session, candidate()))
    with raw_client(root, "curated") as client:
        assert Header.of(find_collection(client, "sql-lessons")).rev == 0
    with gate(root) as session:  # the journal is carried out
        assert session.holdings.header.rev == 1 and len(session.curated) == 1


def test_leftovers_of_dead_gates_are_cleaned(url: str, client: Any) -> None:
    kept = ["a-lock-expired-0123abcd", "sql-lock-expired", "sql-lock-expired-0123abcd-lessons"]
    for name in (*kept, "sql-lock-expired-0123abcd", "sql-lock-released-0123abcd"):
        client.create_collection(name, embedding_function=None)
    with hold(url, client):
        assert sorted(names(client)) == sorted([*kept, "sql-lock"])


def test_racing_gates_never_both_win(url: str, client: Any) -> None:
    racers = [driver(url, 600, "race") for _ in range(4)]
    assert [said(child) for child in racers] == ["ready"] * 4
    for turn in range(8):
        if turn % 2:
            abandon(client)
        tell(racers, "go")
        assert sorted(said(child) for child in racers) == ["held", *["refused"] * 3]
        tell(racers, "end")
        wait_until_free(client)
    for child in racers:
        child.communicate("", timeout=60)


def tell(children: list[subprocess.Popen[str]], word: str) -> None:
    for child in children:
        assert child.stdin is not None
        child.stdin.write(f"{word}\n")
        child.stdin.flush()


def wait_until_free(client: Any) -> None:
    assert soon(lambda: not names(client))


@on_server
def test_second_gate_of_this_host_meets_the_state_lock(root: Path) -> None:
    with gate(root), pytest.raises(LockHeld, match=r"state/gate\.lock is held"), gate(root):
        pass


@on_server
def test_gates_with_two_state_directories_meet_on_the_server(root: Path, tmp_path: Path) -> None:
    put_on_server(tmp_path / "other", server_url(root))
    with gate(root), pytest.raises(LockHeld, match="sql-lock is held"), gate(tmp_path / "other"):
        pass


@on_server
def test_dry_run_beside_a_gate_of_another_host_is_refused(root: Path) -> None:
    with gate(root):
        pass
    with (
        closing(open_server(parse_server(server_url(root)), "gate")) as client,  # type: ignore[type-var]
        hold(server_url(root), client),
        pytest.raises(LockHeld, match="sql-lock is held"),
        gate(root, dry_run=True),
    ):
        pass


def test_process_is_known_by_its_start() -> None:
    child = subprocess.Popen(["sleep", "60"])
    began = process_start(child.pid)
    child.kill()
    child.wait()
    assert began and process_start(child.pid) != began
    assert this_place()


def test_expired_lock_is_left_alone_for_a_margin() -> None:
    now = datetime(2026, 11, 30, tzinfo=UTC)
    held = Holder("n", now, "somebody")
    assert not held.is_gone(now + timedelta(seconds=14), 60)
    assert held.is_gone(now + timedelta(seconds=16), 60)
