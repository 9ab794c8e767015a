"""One real Open WebUI and one Chromium for all scenes."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from lessons_loop.promote.store.initialise import initialise
from lessons_loop.seeds.load import load_seeds, read_seeds, shipped_domains
from support.browser import Screen, chromium
from support.openwebui import PATIENT, PLUGIN, Server
from support.provider import Provider
from support.teaching import TOOL, TOOL_ID

BUNDLE = Path(__file__).parents[2] / "deploy" / "openwebui" / "lessons_filter.py"
VALVES: dict[str, object] = {**PATIENT, "domains": "sql", "top_k": 1, "min_similarity": "0.3"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder as browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(600))  # busy cores load Open WebUI for minutes


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An Open WebUI with two users and a tool, without plugin and without lessons."""
    with Provider() as provider:
        server = Server(tmp_path_factory.mktemp("browser"), provider)
        extra = {"BYPASS_MODEL_ACCESS_CONTROL": "true"}  # no salt: a fresh installation has none
        server.settings = dataclasses.replace(server.settings, extra=extra)
        try:
            server.start()
            server.admin.install_tool(TOOL_ID, "Widget tools", TOOL)
            yield server
        finally:
            server.stop()


@pytest.fixture
def bare(server: Server) -> Iterator[Server]:
    """The server as somebody has it who never heard of lessons."""
    remove_plugin(server)
    away = server.paths.root.with_name("away")
    if server.paths.root.exists():
        server.paths.root.rename(away)
    server.provider.clear()
    yield server
    remove_plugin(server)
    if server.paths.root.exists():
        shutil.rmtree(server.paths.root)
    if away.exists():
        away.rename(server.paths.root)


@pytest.fixture
def taught(server: Server) -> Server:
    """The server with plugin and the shipped sql lessons."""
    if not server.paths.root.exists():
        initialise(str(server.paths.root), ["sql"], server.embedder)
        seeds = read_seeds(shipped_domains()["sql"], "sql")
        server.gate(lambda session: load_seeds(session, seeds))
    server.install(BUNDLE.read_text("utf-8"), VALVES)
    server.provider.clear()
    return server


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The Chromium of all scenes."""
    with chromium() as started:
        yield started


@pytest.fixture
def window(server: Server, browser: Browser) -> Iterator[Callable[[str], Screen]]:
    """Open a window of a user by name (`admin` is the administrator)."""
    opened: list[Screen] = []

    def open_window(name: str) -> Screen:
        client = server.admin if name == "admin" else server.user(name)
        opened.append(Screen(browser, client))
        return opened[-1]

    yield open_window
    for screen in opened:
        screen.close()


def remove_plugin(server: Server) -> None:
    """Delete the plugin where there is one."""
    if server.admin.function(PLUGIN):
        server.admin.ask("DELETE", f"/api/v1/functions/id/{PLUGIN}/delete")
