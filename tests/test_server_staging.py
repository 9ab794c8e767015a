"""Records on their way to a server: added, never read back, kept until acknowledged."""

from __future__ import annotations

import contextlib
import json

import pytest

from lessons_loop.filter.errors import StoreError, StoreMissing, StoreUnreachable
from lessons_loop.filter.events import Usage
from lessons_loop.filter.models import Candidate, Record
from lessons_loop.filter.server import open_server, parse_server
from lessons_loop.filter.server_staging import ServerStaging
from lessons_loop.filter.spool import Spool, read_spooled, spooled
from lessons_loop.filter.store import StorePaths
from support.chroma_server import ChromaServer, prepare, rows_of
from support.gate import WHEN, candidate
from support.relay import FILTER_MAY, Relay, Spoilt

NAME = "sql-lessons-candidates"
USED = Usage(keys=("k" * 64,), message_ref="m", user_ref="u", at=WHEN, outcome="stop")


@pytest.fixture
def url(store_url):
    prepare(parse_server(store_url), "sql")
    return store_url


@pytest.fixture
def spooling(tmp_path):
    """Return a function that gives the spool of a server; its connections are closed."""
    with contextlib.ExitStack() as stack:

        def make(url, token=""):
            staging = ServerStaging(parse_server(url), token)
            stack.callback(staging.close)
            return Spool(StorePaths(tmp_path), staging)

        yield make


def ids(url, name=NAME):
    return set(rows_of(url, "staging", name)["ids"])


def test_records_arrive_whole_and_leave_the_spool(url, spooling):
    spool = spooling(url)
    spool.append_candidates([candidate(message="m1"), candidate(message="m2")])
    spool.append_usage("sql", USED)
    assert spool.drain() == 3 and spool.waiting() == 0
    found = rows_of(url, "staging", NAME)
    rows = zip(found["ids"], found["documents"], found["metadatas"], strict=True)
    assert {Candidate.from_record(Record(*row)).message_ref for row in rows} == {"m1", "m2"}
    assert ids(url, "sql-lessons-events") == {USED.to_record().id}


def test_repeat_after_a_lost_answer_changes_nothing(url, spooling, chroma_server):  # T-31
    lost = []
    with Relay(chroma_server.base) as relay:
        inner = relay.answer

        def answer(call, query, body):
            found = inner(call, query, body)
            if call.path.endswith("/add") and not lost:
                lost.append(call)
                return Spoilt(502, b"<html>")
            return found

        relay.answer = answer
        spool = spooling(url.replace(chroma_server.base, relay.base))
        spool.append_candidates([candidate()])
        with pytest.raises(StoreUnreachable, match="502"):
            spool.drain()
        assert spool.waiting() == 1 and ids(url) == {candidate().id}
        assert spool.drain() == 1
    assert ids(url) == {candidate().id} and spool.waiting() == 0


def test_only_what_the_policy_allows_is_asked(url, spooling, chroma_server):
    with Relay(chroma_server.base, allow=FILTER_MAY) as relay:
        spool = spooling(url.replace(chroma_server.base, relay.base))
        spool.append_candidates([candidate(message=f"m{n}") for n in range(120)])
        assert spool.drain() == 120
    asked = {call.path.rpartition("/")[2] for call in relay.calls if call.method == "POST"}
    assert relay.refused == [] and asked == {"add"} and len(ids(url)) == 120


def test_nothing_waiting_asks_nothing(url, spooling, chroma_server):
    with Relay(chroma_server.base) as relay:
        assert spooling(url.replace(chroma_server.base, relay.base)).drain() == 0
    assert relay.calls == []


def test_database_nobody_initialised_names_the_command(store_url, spooling):
    spool = spooling(store_url)
    spool.append_candidates([candidate()])
    with pytest.raises(StoreMissing, match="lessons init --store"):
        spool.drain()
    assert spool.waiting() == 1
    prepare(parse_server(store_url), "sql")
    assert spool.drain() == 1


def test_missing_collection_holds_up_its_own_records_only(url, spooling):
    spool = spooling(url)
    spool.append_candidates([candidate(domain="ops", message=f"o{n}") for n in range(60)])
    spool.append_candidates([candidate(message=f"s{n}") for n in range(60)])
    with pytest.raises(StoreMissing, match="ops-lessons-candidates is missing: run `lessons init"):
        spool.drain()
    assert spool.waiting() == 60 and len(ids(url)) == 60


def test_collection_of_another_shape_holds_up_its_own_records_only(url, spooling):
    with contextlib.closing(open_server(parse_server(url), "staging")) as client:
        made = client.create_collection("ops-lessons-candidates", embedding_function=None)
        made.add(ids=["x"], embeddings=[[1.0, 2.0]], documents=["two numbers a row"])
    spool = spooling(url)
    spool.append_candidates([candidate(domain="ops"), candidate(), candidate(domain="ops", at="1")])
    spool.append_usage("sql", USED)
    with pytest.raises(StoreError, match="dimension"):
        spool.drain()
    assert len(ids(url)) == 1 and ids(url, "sql-lessons-events") == {USED.to_record().id}
    assert {read_spooled(file)[0] for file in spooled(spool.paths.spool)} == {
        "ops-lessons-candidates"
    }


def test_server_killed_and_back_gets_everything_once(tmp_path, spooling):
    with ChromaServer(tmp_path / "server") as server:
        prepare(parse_server(server.base), "sql")
        spool = spooling(server.base)
        spool.append_candidates([candidate(message="before")])
        spool.drain()
        server.kill()
        spool.append_candidates([candidate(message=f"m{n}") for n in range(5)])
        for _ in range(2):
            with pytest.raises(StoreUnreachable):
                spool.drain(1.0)
        assert spool.waiting() == 5
        server.start()
        assert spool.drain() == 5 and len(ids(server.base)) == 6


def test_frozen_server_costs_the_limit_and_loses_nothing(tmp_path, spooling):
    with ChromaServer(tmp_path / "server") as server:
        prepare(parse_server(server.base), "sql")
        spool = spooling(server.base)
        spool.append_candidates([candidate()])
        server.freeze()
        with pytest.raises(StoreUnreachable, match="timed out"):
            spool.drain(0.5)
        server.thaw()
        assert spool.drain() == 1 and ids(server.base) == {candidate().id}


def test_token_opens_the_door_and_shows_nowhere(url, spooling, chroma_server):
    def guard(call):
        return None if call.token == "Bearer obviously-fake" else Spoilt(401, b"no")

    with Relay(chroma_server.base, spoil=guard) as relay:
        behind = url.replace(chroma_server.base, relay.base)
        spool = spooling(behind, "obviously-fake-but-wrong")
        spool.append_candidates([candidate()])
        with pytest.raises(StoreError, match="HTTP 401") as raised:
            spool.drain()
        assert "obviously" not in str(raised.value)
        assert spooling(behind, "obviously-fake").drain() == 1


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "half \ud800"])
def test_row_a_server_would_refuse_holds_up_nothing(url, spooling, value):
    spool = spooling(url)
    spool.append_candidates([candidate()])
    bad = (
        '{"collection": "sql-lessons-candidates", "record": '
        '{"id": "x", "document": "t", "metadata": {"n": %s}}}'
    )
    (spool.paths.spool / "0-x.json").write_text(bad % json.dumps(value))
    spool.drain()
    assert ids(url) == {candidate().id} and spool.waiting() == 0
    assert [p.name for p in (spool.paths.spool / "bad").iterdir()] == ["0-x.json"]


def test_connection_is_dropped_with_the_staging(url):
    staging = ServerStaging(parse_server(url))
    staging.store({NAME: [candidate().to_record()]}, 5.0)
    staging.close()
    staging.close()  # again is no error
    with contextlib.closing(open_server(parse_server(url), "staging")) as client:
        assert client.get_collection(NAME, embedding_function=None).count() == 1
