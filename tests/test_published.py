"""The published file: read whole or not at all, errors name the file and the next step."""

from __future__ import annotations

import hashlib
import json
import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessons_loop.filter.errors import StoreDamaged, StoreError
from lessons_loop.filter.published import read_published
from lessons_loop.filter.store import StorePaths
from support.gate import HashEmbedder
from support.shelf import put_published, shelf, shelved

EMBEDDER = HashEmbedder()


@pytest.fixture
def paths(tmp_path):
    return StorePaths(tmp_path)


def test_lessons_and_vectors_come_back(paths):
    found = put_published(paths, shelf(), EMBEDDER)
    assert found.lessons == shelf()
    assert found.vectors.shape == (3, 64) and found.vectors.dtype == np.float32
    assert found.header.fingerprint.dimension == 64


def test_missing_file_is_no_error(paths):
    assert read_published(paths.published("sql")) is None


def test_lessons_without_an_embedder_are_published_too(paths):
    found = put_published(paths, shelf(), None)
    assert found.vectors.shape == (3, 0) and found.header.floor is None
    assert found.header.lexical_floor > 0


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_damage_is_noticed(tmp_path_factory, data):
    paths = StorePaths(tmp_path_factory.mktemp("p"))
    put_published(paths, shelf(), EMBEDDER)
    path = paths.published("sql")
    whole = path.read_bytes()
    start = whole.index(b"\n") + 1
    place = data.draw(st.integers(start, len(whole) - 1))
    if data.draw(st.booleans()):
        damaged = whole[:place]
    else:
        damaged = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
    path.write_bytes(damaged)
    with pytest.raises(StoreDamaged, match="lessons publish"):
        read_published(path)


@pytest.mark.parametrize("content", [b"", b"\n", b"{}\n", b"\x00" * 200, b"not json\nrest"])
def test_foreign_file_is_named(paths, content):
    path = paths.published("sql")
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(StoreDamaged, match=r"sql\.lessons"):
        read_published(path)


def test_newer_format_is_refused(paths):
    put_published(paths, shelf(), EMBEDDER)
    path = paths.published("sql")
    path.write_bytes(path.read_bytes().replace(b"lessons-published/1", b"lessons-published/2", 1))
    with pytest.raises(StoreError, match="lessons-published/2"):
        read_published(path)


def test_folder_in_its_place_is_named(paths):
    paths.published("sql").mkdir(parents=True)
    with pytest.raises(StoreError, match="cannot be read"):
        read_published(paths.published("sql"))


def test_reader_meets_the_old_or_the_new_file(paths):
    editions = [shelf(), shelf(shelved("Use LIMIT on big tables.", "big tables"))]
    put_published(paths, editions[0], EMBEDDER)
    stop = threading.Event()
    counts = set()

    def read():
        counts.add(len(read_published(paths.published("sql")).lessons))
        while not stop.is_set():
            counts.add(len(read_published(paths.published("sql")).lessons))

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(30):
        put_published(paths, editions[turn % 2], EMBEDDER, rev=turn)
    stop.set()
    reader.join()
    assert counts <= {3, 4} and counts


def test_others_may_read_but_not_write(paths):
    put_published(paths, shelf(), EMBEDDER)
    assert os.stat(paths.published("sql")).st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "change",
    [
        {"lessons_bytes": 10**9, "count": 0, "dimension": 7},
        {"dimension": -1, "count": -3},
        {"mean": [0.1]},
    ],
)
def test_header_that_does_not_fit_is_damage(paths, change):
    put_published(paths, shelf(), EMBEDDER)
    path = paths.published("sql")
    head, _, body = path.read_bytes().partition(b"\n")
    changed = json.loads(head) | change
    if not changed["count"]:
        body = b""
        changed["sha256"] = hashlib.sha256(body).hexdigest()
    path.write_bytes(json.dumps(changed).encode() + b"\n" + body)
    with pytest.raises(StoreDamaged, match="lessons publish"):
        read_published(path)
