"""Curated lessons on a server: read when they changed, the last good ones kept."""

from __future__ import annotations

import contextlib
import logging
import time

import numpy as np
import pytest

from lessons_loop.filter.errors import StoreMissing
from lessons_loop.filter.recall import score
from lessons_loop.filter.server import open_server, parse_server
from lessons_loop.filter.store import StorePaths
from support.chroma_server import (
    ChromaServer,
    create,
    free_port,
    prepare,
    put_curated,
)
from support.gate import HashEmbedder
from support.processes import soon
from support.relay import FILTER_MAY, Spoilt
from support.server_reading import (
    EMBEDDER,
    MORE,
    NAME,
    all_texts,
    curated,
    reading,
    relayed,
    source,
    texts,
)
from support.shelf import put_published, shelf, shelved


@pytest.fixture
def url(store_url):
    prepare(parse_server(store_url), "sql", "ops")
    return store_url


def test_change_is_seen_and_unchanged_is_not_read_again(url, chroma_server):  # T-40
    put_curated(url, shelf(), EMBEDDER)
    with relayed(url, chroma_server) as (relay, reader):
        assert reader.refresh() and texts(reader) == all_texts(shelf())
        relay.calls.clear()
        assert not reader.refresh()
        assert [call.method for call in relay.calls] == ["GET", "GET"]
        put_curated(url, shelf(MORE)[1:], EMBEDDER, rev=2)
        assert reader.refresh() and texts(reader) == all_texts(shelf(MORE)[1:])


def test_server_and_file_give_the_same_index(url, tmp_path):
    put_curated(url, shelf(MORE), EMBEDDER)
    found = put_published(StorePaths(tmp_path), shelf(MORE), EMBEDDER)
    drawn = source(url).fetch("sql", None).lessons
    order = [drawn.keys.index(key) for key in found.keys]
    assert [drawn.lines[n] for n in order] == list(found.lines)
    assert [drawn.words[n] for n in order] == list(found.words)
    assert np.allclose(drawn.vectors[order], found.vectors, atol=1e-6)
    same = ("floor", "lexical_floor", "mean", "fingerprint", "dimension", "count", "domain")
    assert all(getattr(drawn.header, n) == getattr(found.header, n) for n in same)


def test_calibration_alone_is_a_change(url):
    put_curated(url, shelf(), EMBEDDER, floor=-1.0, calibrated_rev=-1)
    shelves = source(url)
    first = shelves.fetch("sql", None)
    assert first.lessons.header.floor is None
    put_curated(url, shelf(), EMBEDDER, floor=0.4)
    assert shelves.fetch("sql", first).lessons.header.floor == 0.4
    shelves.close()


def test_lessons_without_an_embedder_are_found_by_words(url):
    put_curated(url, shelf(), None)
    with reading(url) as reader:
        reader.refresh()
        recall = reader.loaded.recall
        assert recall.dimension == 0
        best = int(np.argmax(score(recall, ["operating hours of a machine, serial?"], None)))
        assert recall.lesson(best) == shelf()[0]


def test_store_nobody_initialised_names_the_command_once(store_url, caplog):
    with reading(store_url) as reader, caplog.at_level(logging.WARNING):
        for _ in range(3):
            reader.refresh()
        assert texts(reader) == set()
    assert len(caplog.records) == 1 and f"lessons init --store {store_url}" in caplog.text


def test_domain_nobody_initialised_is_no_warning(store_url, caplog):
    prepare(parse_server(store_url), "sql")
    put_curated(store_url, shelf(), EMBEDDER)
    with reading(store_url) as reader, caplog.at_level(logging.WARNING):
        reader.refresh()
        assert len(texts(reader)) == 3 and not caplog.records
        prepare_late(store_url, "ops")
        put_curated(store_url, [shelved("Prune volumes.", "disk", domain="ops")], EMBEDDER)
        reader.refresh()
        assert len(texts(reader)) == 4


def prepare_late(url, domain):
    with contextlib.closing(open_server(parse_server(url), "curated")) as client:
        create(client, f"{domain}-lessons", {"domain": domain, "rev": 0})


@pytest.mark.parametrize("blow", ["kill", "freeze"])
def test_server_out_of_reach_keeps_the_lessons_and_warns_once(tmp_path, caplog, blow):
    with ChromaServer(tmp_path) as server:
        prepare(parse_server(server.base), "sql", "ops")
        put_curated(server.base, shelf(), EMBEDDER)
        with reading(server.base, seconds=2.0) as reader, caplog.at_level(logging.WARNING):
            assert soon(reader.refresh)
            caplog.clear()
            getattr(server, blow)()
            started = time.monotonic()
            for _ in range(3):
                assert not reader.refresh()
            assert time.monotonic() - started < 60 and len(texts(reader)) == 3
            assert len(caplog.records) == 1 and "stay in use" in caplog.text
            server.thaw() if blow == "freeze" else server.start()
            put_curated(server.base, shelf(MORE), EMBEDDER, rev=2)
            assert soon(reader.refresh) and len(texts(reader)) == 4
            assert reader.alerts.active == {}


def test_server_replaced_by_an_empty_one_keeps_the_lessons(tmp_path, caplog):
    port = free_port()
    with ChromaServer(tmp_path / "old", port) as old:
        prepare(parse_server(old.base), "sql", "ops")
        put_curated(old.base, shelf(), EMBEDDER, rev=7)
        with reading(old.base) as reader, caplog.at_level(logging.WARNING):
            reader.refresh()
            old.kill()
            with ChromaServer(tmp_path / "new", port) as new:
                replaced_by_empty(reader, caplog, new)


def replaced_by_empty(reader, caplog, new):
    reader.refresh()
    assert len(texts(reader)) == 3 and f"lessons init --store {new.base}" in caplog.text
    prepare(parse_server(new.base))
    reader.refresh()
    prepare_late(new.base, "sql")
    reader.refresh()
    assert len(texts(reader)) == 3 and "is empty, but no newer" in reader.alerts.active.popitem()[1]
    put_curated(new.base, [MORE], EMBEDDER, rev=1)  # lessons again: believed
    reader.refresh()
    assert texts(reader) == all_texts([MORE])


def test_lessons_the_gate_emptied_are_gone(url):
    put_curated(url, shelf(), EMBEDDER, rev=1)
    with reading(url) as reader:
        reader.refresh()
        put_curated(url, [], EMBEDDER, rev=2)
        assert reader.refresh() and texts(reader) == set()


def test_vanished_collection_keeps_the_lessons(url, caplog):
    put_curated(url, shelf(), EMBEDDER)
    with reading(url) as reader, caplog.at_level(logging.WARNING):
        reader.refresh()
        with curated(url) as (client, _):
            client.delete_collection(NAME)
        reader.refresh()
        reader.refresh()
        assert len(texts(reader)) == 3
    assert len(caplog.records) == 1 and "sql-lessons is gone" in caplog.text


def test_collection_made_anew_is_followed(url):
    put_curated(url, shelf(), EMBEDDER, rev=4)
    with reading(url) as reader:
        reader.refresh()
        with curated(url) as (client, _):
            client.delete_collection(NAME)
            create(client, NAME, {"domain": "sql", "rev": 0})
        put_curated(url, shelf(MORE), HashEmbedder(32), rev=4)
        assert reader.refresh() and reader.loaded.recall.dimension == 32
        assert len(texts(reader)) == 4


def test_collection_made_anew_between_two_calls_is_followed(url, chroma_server):
    put_curated(url, shelf(), EMBEDDER)

    def swap(call):
        if call.path.endswith("/get") and not swapped:
            swapped.append(call)
            with curated(url) as (client, _):
                client.delete_collection(NAME)
                create(client, NAME, {"domain": "sql", "rev": 0})
            put_curated(url, [MORE], EMBEDDER)

    swapped = []
    with relayed(url, chroma_server, spoil=swap) as (_, reader):
        reader.refresh()
        assert texts(reader) == all_texts([MORE]) and reader.alerts.active == {}


def test_change_while_reading_is_read_at_the_next_look(url, chroma_server):
    put_curated(url, shelf(), EMBEDDER)

    def change(call):
        if call.path.endswith("/get") and armed:
            armed.clear()
            put_curated(url, [MORE], EMBEDDER, rev=9)

    armed = []
    with relayed(url, chroma_server, spoil=change) as (_, reader):
        reader.refresh()
        put_curated(url, shelf(MORE), EMBEDDER, rev=8)
        armed.append(1)
        assert not reader.refresh() and len(texts(reader)) == 3
        assert reader.refresh() and texts(reader) == all_texts([MORE])


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ({"schema_version": 9}, "install the plugin"),
        ({"embedding": "{"}, "unreadable header"),
        ({"mean": "[1,"}, "unreadable header"),
        ({"domain": 7}, "not made by `lessons init`"),
    ],
)
def test_foreign_header_is_refused(url, caplog, header, says):
    put_curated(url, shelf(), EMBEDDER, **header)
    with reading(url) as reader, caplog.at_level(logging.WARNING):
        reader.refresh()
        assert texts(reader) == set() and says in caplog.text and len(caplog.records) == 1


def test_closed_reader_asks_nothing(url, chroma_server):
    put_curated(url, shelf(), EMBEDDER)
    with relayed(url, chroma_server) as (relay, reader):
        reader.refresh()
        reader.close()
        relay.calls.clear()
        assert not reader.refresh() and relay.calls == []


def test_outage_is_paid_for_once_not_per_domain(url, chroma_server):
    down = []
    with relayed(url, chroma_server, spoil=lambda call: down[0] if down else None) as found:
        relay, reader = found
        reader.refresh()
        relay.calls.clear()
        down.append(Spoilt(502, b"<html>"))
        reader.refresh()
        reader.refresh()
        assert len(relay.calls) == 2


def test_reading_needs_only_what_the_policy_allows(url, chroma_server):
    put_curated(url, shelf(), EMBEDDER)
    with relayed(url, chroma_server, allow=FILTER_MAY) as (relay, reader):
        reader.refresh()
        assert len(texts(reader)) == 3 and relay.refused == []


def test_missing_is_an_error_of_its_own(url):
    put_curated(url, shelf(), EMBEDDER)
    shelves = source(url)
    known = shelves.fetch("sql", None)
    with curated(url) as (client, _):
        client.delete_collection(NAME)
    with pytest.raises(StoreMissing):
        shelves.fetch("sql", known)
