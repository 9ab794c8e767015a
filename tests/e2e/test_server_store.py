"""A lesson store on a Chroma server under a real Open WebUI: works, and never holds a chat up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lessons_loop.filter.models import Curated, Lesson
from lessons_loop.filter.server import parse_server
from lessons_loop.filter.text import digest
from support.chroma_server import ChromaServer, prepare, put_curated, rows_of
from support.openwebui import MODEL, PLUGIN, VALVES, Server
from support.processes import soon
from support.provider import system_text
from support.teaching import COUNT, TOOL_ID, distil_widgets

SPROCKETS = "How do I count the sprockets in the warehouse?"
ADVICE = "Count sprockets in the sprocket_ledger table, never by scanning shelf_notes."
CANDIDATES, EVENTS = "sql-lessons-candidates", "sql-lessons-events"
TOKEN = "obviously-fake-token"


@pytest.fixture
def store(openwebui: Server, tmp_path: Path) -> Iterator[ChromaServer]:
    """A Chroma server with one lesson, set as the plugin's store."""
    for left in spooled(openwebui):  # for the server of an earlier test
        left.unlink(missing_ok=True)
    with ChromaServer(tmp_path) as store:
        prepare(parse_server(store.base), "sql")
        teach(openwebui, store, ADVICE)
        valves = VALVES | {"store": store.base, "chroma_token": TOKEN}
        openwebui.admin.set_valves("functions", PLUGIN, valves)
        yield store


def teach(openwebui: Server, store: ChromaServer, *texts: str) -> None:
    """Put lessons into curated as the gate does."""
    lessons = [
        Curated(
            lesson=Lesson(
                domain="sql",
                kind="perf-guard",
                trigger="counting sprockets in the warehouse",
                text=text,
                status="curated",
            ),
            since="2026-11-01",
        )
        for text in texts
    ]
    put_curated(store.base, lessons, openwebui.embedder, rev=len(texts))


def advised(server: Server, advice: str = "sprocket_ledger") -> bool:
    """Ask a fresh question and tell whether the provider was given the lesson."""
    server.provider.clear()
    assert server.admin.chat(MODEL, SPROCKETS).status_code == 200
    return advice in system_text(server.provider.received(SPROCKETS)[0])


def learn(server: Server) -> None:
    """Ask a question whose answer proves something."""
    server.provider.distiller = distil_widgets
    assert server.ask(COUNT, tool_ids=[TOOL_ID]).ended


def spooled(server: Server) -> list[Path]:
    """Return what waits for the server."""
    return list((server.settings.data / "lessons" / "spool").glob("*.json"))


def texts(store: ChromaServer) -> list[str]:
    """Return the candidates' texts."""
    return list(rows_of(store.base, "staging", CANDIDATES)["documents"])


def test_lessons_come_from_the_server_and_candidates_reach_it(
    openwebui: Server, store: ChromaServer
) -> None:
    assert soon(lambda: advised(openwebui))
    openwebui.ask(SPROCKETS)
    learn(openwebui)
    assert soon(lambda: texts(store)) == [
        "Count widgets with count_widgets on table widget_ledger."
    ]
    assert soon(lambda: rows_of(store.base, "staging", EVENTS)["ids"])
    assert soon(lambda: not spooled(openwebui))
    assert TOKEN not in openwebui.log and "/collections/" not in openwebui.log


def test_new_lesson_is_recalled_without_a_restart(openwebui: Server, store: ChromaServer) -> None:
    assert soon(lambda: advised(openwebui))
    teach(openwebui, store, ADVICE, "Sprockets of type B count double in sprocket_ledger.")
    assert soon(lambda: advised(openwebui, "count double"))


def test_killed_server_costs_no_chat_and_loses_nothing(
    openwebui: Server, store: ChromaServer
) -> None:
    assert soon(lambda: advised(openwebui))
    mark = len(openwebui.log)
    store.kill()
    learn(openwebui)
    assert soon(lambda: spooled(openwebui))
    assert advised(openwebui)
    assert soon(lambda: "stay in use" in openwebui.log[mark:])
    store.start()
    assert soon(lambda: texts(store), 120)
    assert soon(lambda: not spooled(openwebui))
    assert openwebui.log[mark:].count("stay in use") == 1


def test_server_down_from_the_start_is_used_once_it_is_back(
    openwebui: Server, store: ChromaServer
) -> None:
    openwebui.stop()
    store.kill()
    openwebui.start()
    assert not advised(openwebui)
    store.start()
    assert soon(lambda: advised(openwebui))


def test_frozen_server_delays_no_chat(openwebui: Server, store: ChromaServer) -> None:
    assert soon(lambda: advised(openwebui))
    mark = len(openwebui.log)
    store.freeze()
    assert soon(lambda: "timed out" in openwebui.log[mark:], 120)
    assert advised(openwebui)
    store.thaw()


def test_thumb_for_a_frozen_server_waits_and_arrives(
    openwebui: Server, store: ChromaServer
) -> None:
    openwebui.install_ratings()
    assert soon(lambda: advised(openwebui))
    turn = openwebui.ask(SPROCKETS)
    assert soon(lambda: not spooled(openwebui) and used_of(store, turn.message_id))
    store.freeze()
    openwebui.rate(turn, -1)  # both are answered while the server is frozen
    openwebui.rate(openwebui.ask(SPROCKETS), 1)
    assert soon(lambda: sum("rating" in f.read_text() for f in spooled(openwebui)) == 2)
    store.thaw()
    assert soon(lambda: rated(store) == ["down", "up"], 120)


def used_of(store: ChromaServer, message: str) -> bool:
    """Tell whether the used event of an answer has arrived."""
    found = rows_of(store.base, "staging", EVENTS)["metadatas"]
    return digest("message", message) in [row["message_ref"] for row in found]


def rated(store: ChromaServer) -> list[str]:
    """Return the ratings that have arrived, the oldest first."""
    found = rows_of(store.base, "staging", EVENTS)["metadatas"]
    rows = sorted((row["at"], row["outcome"]) for row in found if row["type"] == "rating")
    return [outcome for _, outcome in rows]


def test_switching_back_to_the_folder_needs_no_restart(
    openwebui: Server, store: ChromaServer
) -> None:
    assert soon(lambda: advised(openwebui))
    openwebui.admin.set_valves("functions", PLUGIN, VALVES)
    assert not advised(openwebui)
