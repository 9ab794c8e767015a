"""What doctor says about the way from the plugin to its store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lessons_loop.deploy.doctor.findings import Level
from lessons_loop.deploy.doctor.proxy import look_at_door, store_findings
from lessons_loop.filter.server import parse_server
from support.chroma_server import ChromaServer, free_port, fresh_url, prepare
from support.nginx import Proxy


class Ways(NamedTuple):
    """Addresses of one store, and of the ways to it."""

    direct: str
    through: str
    elsewhere: str


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory, chroma_server: ChromaServer) -> Iterator[Ways]:
    direct, other = fresh_url(chroma_server), fresh_url(chroma_server)
    for url in (direct, other):
        prepare(parse_server(url), "sql")
    tenant = parse_server(direct).tenant
    with Proxy(tmp_path_factory.mktemp("door"), chroma_server.port, tenant=tenant) as proxy:
        yield Ways(direct, direct.replace(chroma_server.base, proxy.base), other)


def told(plugin: str, store: str) -> list[tuple[Level, str]]:
    found = store_findings(plugin, store, look_at_door(plugin, store))
    return [(one.level, one.text) for one in found]


def test_plugin_behind_the_proxy_is_fine(ways: Ways) -> None:
    ((level, text),) = told(ways.through, ways.direct)
    assert level is Level.OK and "through the policy proxy" in text


def test_plugin_at_chroma_itself_is_a_warning(ways: Ways) -> None:
    ((level, text),) = told(ways.direct, ways.direct)
    assert level is Level.WARNING and "Chroma itself" in text


def test_proxy_before_another_store_is_a_warning(ways: Ways) -> None:
    for plugin, store in ((ways.through, ways.elsewhere), (ways.elsewhere, ways.direct)):
        ((level, text),) = told(plugin, store)
        assert level is Level.WARNING and "names another one" in text


def test_address_that_cannot_be_asked_is_told(ways: Ways) -> None:
    ((level, text),) = told(f"http://127.0.0.1:{free_port()}", ways.direct)
    assert level is Level.NOT_CHECKED and "cannot be asked" in text


def test_folders_and_empty_valves_ask_nothing(ways: Ways, tmp_path: Path) -> None:
    assert told("", ways.direct) == told(str(tmp_path), str(tmp_path)) == []
    ((level, _),) = told(str(tmp_path), ways.direct)
    assert level is Level.WARNING
