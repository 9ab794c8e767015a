"""Where the lessons are read: stores that are missing, impossible, filled later."""

from __future__ import annotations

import asyncio
import logging

import pytest

from lessons_loop.filter.store import StorePaths
from support.hooks import EMBEDDER, Chat, blocks
from support.shelf import put_published, shelf


def test_missing_store_is_no_trouble(tmp_path, caplog):
    chat = Chat(tmp_path / "nowhere")
    with caplog.at_level(logging.WARNING):
        assert blocks(asyncio.run(chat.inlet())) == []
    assert not caplog.records and not (tmp_path / "nowhere").exists()


def test_unusable_server_address_is_one_warning(tmp_path, caplog):
    chat = Chat("http://user:secret@127.0.0.1:8000")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert blocks(asyncio.run(chat.inlet())) == []
    assert len(caplog.records) == 1 and "chroma_token" in caplog.text
    assert "secret" not in caplog.text


def test_lessons_published_later_are_recalled(tmp_path):
    chat = Chat(tmp_path)

    async def scene():
        before = blocks(await chat.inlet())
        put_published(StorePaths(tmp_path), shelf(), EMBEDDER)
        chat.filter.backend.reader.refresh()
        return before, blocks(await chat.inlet())

    before, after = asyncio.run(scene())
    assert before == [] and len(after) == 1


@pytest.mark.parametrize("store", ["~no-such-user/x", "a\x00b"])
def test_impossible_store_folder_is_named(caplog, store):
    chat = Chat(store)
    with caplog.at_level(logging.WARNING):
        assert blocks(asyncio.run(chat.inlet())) == []
    assert len(caplog.records) == 1 and "set the valve `store`" in caplog.text
