"""Lessons in memory: refreshed when the file changes, the last good ones kept."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource

import pytest

from lessons_loop.filter.alerts import Alerts
from lessons_loop.filter.reader import CuratedReader, keep_refreshed
from lessons_loop.filter.shelves import PublishedFolder
from lessons_loop.filter.store import StorePaths
from support.gate import HashEmbedder
from support.shelf import put_published, shelf, shelved

EMBEDDER = HashEmbedder()
MORE = shelved("Use LIMIT on big tables.", "big tables")


@pytest.fixture
def reader(tmp_path):
    return CuratedReader(PublishedFolder(StorePaths(tmp_path)), ("sql", "ops"), Alerts())


def texts(reader):
    return {
        reader.loaded.recall.lesson(p).lesson.text for p in range(len(reader.loaded.recall.keys))
    }


def test_change_is_seen_and_unchanged_is_not_read_again(reader):  # T-40
    put_published(reader.source.paths, shelf(), EMBEDDER)
    assert reader.refresh() and len(texts(reader)) == 3
    assert not reader.refresh()
    put_published(reader.source.paths, shelf(MORE)[1:], EMBEDDER)
    assert reader.refresh()
    assert texts(reader) == {lesson.lesson.text for lesson in shelf(MORE)[1:]}


def test_all_domains_are_read(reader):
    put_published(reader.source.paths, shelf(), EMBEDDER)
    put_published(
        reader.source.paths, [shelved("Prune volumes.", "full disk", domain="ops")], EMBEDDER
    )
    reader.refresh()
    assert len(texts(reader)) == 4


def test_empty_store_is_no_warning(reader, caplog):
    with caplog.at_level(logging.WARNING):
        reader.refresh()
    assert texts(reader) == set() and not caplog.records


def test_damaged_file_keeps_the_lessons_and_warns_once(reader, caplog):
    put_published(reader.source.paths, shelf(), EMBEDDER)
    reader.refresh()
    path = reader.source.paths.published("sql")
    whole = path.read_bytes()
    with caplog.at_level(logging.WARNING):
        for cut in (50, 60, 70):
            path.write_bytes(whole[:-cut])
            reader.refresh()
    assert len(texts(reader)) == 3 and len(caplog.records) == 1
    assert "lessons publish" in caplog.text
    path.write_bytes(whole)
    reader.refresh()
    assert reader.alerts.active == {}


def test_store_that_is_no_folder_is_told(tmp_path, caplog):
    (tmp_path / "store").write_text("a file where the folder should be")
    reader = CuratedReader(PublishedFolder(StorePaths(tmp_path / "store")), ("sql",), Alerts())
    with caplog.at_level(logging.WARNING):
        reader.refresh()
    assert "cannot be read" in caplog.text and texts(reader) == set()


def test_removed_file_means_no_lessons(reader):
    put_published(reader.source.paths, shelf(), EMBEDDER)
    reader.refresh()
    reader.source.paths.published("sql").unlink()
    reader.refresh()
    assert texts(reader) == set()


def test_timer_stops_with_its_owner():
    class Owner:
        ticks = 0

    async def scene():
        owner = Owner()

        async def tick(alive):
            alive.ticks += 1

        timer = keep_refreshed(owner, tick, seconds=0.01)
        while owner.ticks < 3:
            await asyncio.sleep(0.01)
        del owner
        gc.collect()
        await asyncio.wait_for(timer, 60)

    asyncio.run(scene())


def test_domains_of_two_models_are_told(tmp_path, caplog):
    paths, alerts = StorePaths(tmp_path), Alerts()
    put_published(paths, shelf(), HashEmbedder(64))
    put_published(paths, (shelved(domain="ops"),), HashEmbedder(32))
    reader = CuratedReader(PublishedFolder(paths), ("sql", "ops"), alerts)
    with caplog.at_level(logging.WARNING):
        reader.refresh()
    assert reader.loaded.recall.dimension == 0
    assert "hash-64 and hash-32" in caplog.text and "lessons reembed" in caplog.text


def test_file_that_cannot_be_opened_for_a_while_is_read_later(tmp_path, caplog):
    paths = StorePaths(tmp_path)
    put_published(paths, shelf(), None)
    reader = CuratedReader(PublishedFolder(paths), ("sql",), Alerts())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # opening fails, looking does not
    try:
        reader.refresh()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert reader.loaded.recall.keys == () and "cannot be read" in caplog.text
    assert reader.refresh() and len(reader.loaded.recall.keys) == 3
    assert not reader.refresh()
