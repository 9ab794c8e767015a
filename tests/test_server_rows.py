"""Rows of curated on a server: read in pages, unusable ones left out and told once."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from lessons_loop.filter.embed import Purpose
from lessons_loop.filter.errors import StoreUnreachable
from lessons_loop.filter.models import Record
from lessons_loop.filter.server import parse_server
from lessons_loop.filter.server_rows import read_page
from support.chroma_server import (
    prepare,
    put_curated,
    put_rows,
)
from support.gate import HashEmbedder
from support.relay import Relay, Spoilt
from support.server_reading import (
    EMBEDDER,
    MORE,
    all_texts,
    curated,
    reading,
    relayed,
    source,
    texts,
)
from support.shelf import shelf, shelved


@pytest.fixture
def url(store_url):
    prepare(parse_server(store_url), "sql", "ops")
    return store_url


def test_many_lessons_come_in_pages(url):
    many = [shelved(f"Use table t{n} for topic {n}.", f"topic {n}") for n in range(1201)]
    put_curated(url, many, HashEmbedder(400))  # 250 rows a page
    with reading(url) as reader:
        reader.refresh()
        assert texts(reader) == all_texts(many)


def test_unusable_rows_are_left_out_and_told_once(url, caplog):
    put_curated(url, shelf(), EMBEDDER)
    good = MORE.to_record()
    bad = [
        Record("forged", good.document, good.metadata),
        Record("x1", "text", {"domain": "sql"}),
        shelved("Prune volumes.", "full disk", domain="ops").to_record(),
    ]
    rows = EMBEDDER.embed([record.document for record in bad], Purpose.DOCUMENT)
    with curated(url) as (_, collection):
        put_rows(collection, bad, rows)
        put_rows(collection, [good], np.zeros((1, 64), np.float32))
        collection.modify(metadata=collection.metadata | {"rev": 2})
    with reading(url) as reader, caplog.at_level(logging.WARNING):
        reader.refresh()
        reader.refresh()
        assert texts(reader) == all_texts(shelf()) and len(caplog.records) == 1
        assert "3 rows cannot be read" in caplog.text and "1 rows have no usable" in caplog.text
        put_curated(url, shelf(), EMBEDDER, rev=3)
        reader.refresh()
        assert reader.alerts.active == {}


def test_change_that_leaves_no_usable_row_keeps_the_lessons(url, caplog):
    put_curated(url, shelf(), EMBEDDER)
    with reading(url) as reader, caplog.at_level(logging.WARNING):
        reader.refresh()
        with curated(url) as (_, collection):
            rows = collection.get(include=[])["ids"]
            collection.update(ids=rows, embeddings=np.zeros((len(rows), 64), np.float32))
            collection.modify(metadata=collection.metadata | {"rev": 2})
        assert not reader.refresh() and texts(reader) == all_texts(shelf())
        assert "none of 3 rows can be used: 3 rows have no usable vector" in caplog.text
        put_curated(url, shelf(), EMBEDDER, rev=3)
        assert reader.refresh() and reader.alerts.active == {}


@pytest.mark.parametrize("factor", [1e30, 1e-30, 7.0])
def test_vectors_become_unit_rows(factor):
    record = shelf()[0].to_record()
    row = EMBEDDER.embed([record.document], Purpose.DOCUMENT)
    fields = {"ids": [record.id], "documents": [record.document], "metadatas": [record.metadata]}
    vectors = read_page(fields | {"embeddings": row * np.float32(factor)}, "sql", 64).vectors
    assert (vectors.dtype, vectors.shape) == (np.float32, (1, 64))
    assert np.allclose(vectors, row, atol=1e-5)


@pytest.mark.parametrize("rows", [None, [], [[1.0] * 63], [["x"] * 64], [[None] * 64], 7, "text"])
def test_rows_without_a_vector_are_counted(rows):
    record = shelf()[0].to_record()
    fields = {"ids": [record.id], "documents": [record.document], "metadatas": [record.metadata]}
    page = read_page(fields | {"embeddings": rows}, "sql", 64)
    assert (page.keys, page.bad_rows, page.bad_vectors) == ([], 0, 1)


def test_more_than_recall_holds_is_capped_and_told(url, caplog):
    put_curated(url, shelf(MORE), EMBEDDER)
    with reading(url, most=2) as reader, caplog.at_level(logging.WARNING):
        reader.refresh()
        reader.refresh()
        assert len(texts(reader)) == 2
    assert len(caplog.records) == 1 and "only the first 2 are recalled" in caplog.text


def test_whole_load_has_a_limit(url, chroma_server):
    put_curated(url, shelf(), EMBEDDER)
    with Relay(chroma_server.base, delay=0.2) as relay:
        shelves = source(url.replace(chroma_server.base, relay.base), load_seconds=0.1)
        with pytest.raises(StoreUnreachable, match=r"more than 0\.1 s"):
            shelves.fetch("sql", None)


@pytest.mark.parametrize(
    "spoilt",
    [
        Spoilt(200, b"<html>"),
        Spoilt(500, b"{}"),
        Spoilt(200, b'{"ids": [["a"]]}'),
        Spoilt(200, b"[1]"),
        Spoilt(200, b'{"ids":["a"],"documents":[1],"metadatas":["x"],"embeddings":[["y"]]}'),
        Spoilt(403, b"no"),
        Spoilt(302, b"", (("Location", "http://127.0.0.1:9/"),)),
    ],
)
def test_odd_answers_keep_the_lessons(url, chroma_server, caplog, spoilt):
    put_curated(url, shelf(), EMBEDDER)
    odd = []

    def spoil(call):
        return spoilt if odd else None

    with relayed(url, chroma_server, spoil=spoil) as (_, reader):
        reader.refresh()
        odd.append(1)
        put_curated(url, [MORE], EMBEDDER, rev=2)
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                assert not reader.refresh()
        assert len(texts(reader)) == 3 and len(caplog.records) == 1
        odd.clear()
        assert reader.refresh() and reader.alerts.active == {}
