"""One real Open WebUI for the whole e2e session, with the shipped plugin installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.openwebui import PLUGIN, VALVES, Server
from support.provider import Provider
from support.teaching import TOOL, TOOL_ID

BUNDLE = Path(__file__).parents[2] / "deploy" / "openwebui" / "lessons_filter.py"
LESSONS = (
    (
        "counting gadgets in the warehouse",
        "Count gadgets in the gadget_ledger table, never by scanning shelf_notes.",
    ),
    ("rotating the ingress certificate", "Rotate the ingress certificate with cert-manager."),
    ("backing up the billing database", "Take billing backups from the replica billing-r2."),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything in this folder as e2e."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(600))  # busy cores load Open WebUI for minutes


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server as the session keeps it; tests use `openwebui`."""
    folder = tmp_path_factory.mktemp("e2e")
    with Provider() as provider:
        server = Server(folder, provider)
        try:
            server.teach(*LESSONS)
            server.start()
            server.install(BUNDLE.read_text("utf-8"), VALVES)
            server.admin.install_tool(TOOL_ID, "Widget tools", TOOL)
            yield server
        finally:
            server.stop()


@pytest.fixture
def openwebui(server: Server) -> Server:
    """A running server with the plugin's standard valves and a provider without a past."""
    if server.child is None or server.child.ended() is not None:
        server.start()
    server.admin.set_valves("functions", PLUGIN, VALVES)
    server.provider.clear()
    return server
