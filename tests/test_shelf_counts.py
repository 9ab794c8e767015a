"""A count that does not fit the rows a server gives takes no lesson away."""

from __future__ import annotations

from contextlib import closing

import pytest

from lessons_loop.filter.server import parse_server
from lessons_loop.filter.server_shelf import CuratedServer
from lessons_loop.filter.shelves import Shelf
from support.chroma_server import ChromaServer, prepare, put_curated
from support.gate import HashEmbedder
from support.relay import Call, Relay, Spoilt
from support.shelf import shelf, shelved

MORE = shelved("Use LIMIT on big tables.", "big tables")


@pytest.fixture
def url(store_url: str) -> str:
    prepare(parse_server(store_url), "sql")
    put_curated(store_url, shelf(), HashEmbedder())
    return store_url


def size(found: Shelf) -> int:
    """Return how many lessons a shelf holds."""
    return len(found.lessons.keys) if found.lessons else 0


@pytest.mark.parametrize("counted", [b"true", b"1", b"0", b"2", b"7"])
@pytest.mark.parametrize("started", [True, False])
def test_wrong_count_takes_no_lesson_away(
    url: str, chroma_server: ChromaServer, counted: bytes, started: bool
) -> None:
    odd: list[Spoilt] = []

    def spoil(call: Call) -> Spoilt | None:
        return odd[0] if odd and call.path.endswith("/count") else None

    with Relay(chroma_server.base, spoil=spoil) as relay:
        address = parse_server(url.replace(chroma_server.base, relay.base))
        with closing(CuratedServer(address, seconds=20.0)) as source:
            known = source.fetch("sql", None) if started else None
            odd.append(Spoilt(200, counted))
            put_curated(url, [*shelf(), MORE], HashEmbedder(), rev=2)
            found = source.fetch("sql", known)
            assert size(found) == (3 if started else 4)
            odd.clear()
            assert size(source.fetch("sql", found)) == 4


def test_empty_domain_is_read_once(store_url: str, chroma_server: ChromaServer) -> None:
    prepare(parse_server(store_url), "sql")
    with Relay(chroma_server.base) as relay:
        address = parse_server(store_url.replace(chroma_server.base, relay.base))
        with closing(CuratedServer(address, seconds=20.0)) as source:
            found = source.fetch("sql", None)
            relay.calls.clear()
            assert size(found) == 0 and source.fetch("sql", found) is found
    assert [call.method for call in relay.calls] == ["GET"]
