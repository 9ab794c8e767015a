from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from support.openwebui import MODEL, PLUGIN, VALVES, Server
from support.processes import soon
from support.provider import system_text
from support.teaching import COUNT, TOOL_ID, distil_widgets

GADGETS = "How do I count the gadgets in the warehouse?"
ADVICE = "gadget_ledger"
HOLD = (
    "import fcntl, sys, time; lock = open(sys.argv[1], 'a'); fcntl.flock(lock, fcntl.LOCK_EX);"
    "print('held', flush=True); time.sleep(300)"
)


@contextmanager
def staging_held(server: Server) -> Iterator[None]:
    """Another process holds staging's lock for the block."""
    command = [sys.executable, "-c", HOLD, str(server.paths.staging_lock)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout and holder.stdout.readline()
        try:
            yield
        finally:
            holder.kill()


def plugin_is_on(server: Server) -> bool:
    found = server.admin.function(PLUGIN) or {}
    return bool(found.get("is_active") and found.get("is_global"))


def advised(server: Server) -> bool:
    """Ask a fresh question and tell whether the provider was given the lesson."""
    server.provider.clear()
    assert server.admin.chat(MODEL, GADGETS).status_code == 200
    return ADVICE in system_text(server.provider.received(GADGETS)[0])


def test_restart_keeps_plugin_and_lessons(openwebui: Server) -> None:
    openwebui.restart()
    assert advised(openwebui)
    assert plugin_is_on(openwebui)


def test_staging_locked_from_the_start_loses_nothing(openwebui: Server) -> None:
    before = len(openwebui.staged())
    openwebui.stop()
    with staging_held(openwebui):
        openwebui.start()
        openwebui.provider.distiller = distil_widgets
        turn = openwebui.ask(COUNT, tool_ids=[TOOL_ID])
        assert turn.ended
        soon(lambda: list(openwebui.paths.spool.glob("*.json")))
        assert advised(openwebui)
    assert soon(lambda: openwebui.staged()[before:])
    assert plugin_is_on(openwebui)


def test_store_missing_from_the_start_recovers(openwebui: Server) -> None:
    openwebui.stop()
    away = openwebui.paths.root.with_name("away")
    openwebui.paths.root.rename(away)
    openwebui.start()
    assert not advised(openwebui)
    assert plugin_is_on(openwebui)
    for entry in away.iterdir():
        target = openwebui.paths.root / entry.name
        openwebui.paths.root.mkdir(exist_ok=True)
        if not target.exists():
            entry.rename(target)
    assert soon(lambda: advised(openwebui), 90)


def test_damaged_published_file_recovers(openwebui: Server) -> None:
    published = openwebui.paths.published("sql")
    sound = published.read_bytes()
    openwebui.stop()
    published.write_bytes(sound[:100] + b"torn")
    openwebui.start()
    assert not advised(openwebui)
    assert openwebui.log.count("lessons publish") == 1
    published.write_bytes(sound)
    assert soon(lambda: advised(openwebui), 90)
    assert plugin_is_on(openwebui)


def test_crash_inside_staging_leaves_the_folder_alone(openwebui: Server) -> None:
    before = len(openwebui.staged())
    openwebui.stop()
    openwebui.paths.staging_marker.write_text("{}")
    openwebui.start()
    openwebui.provider.distiller = distil_widgets
    openwebui.ask(COUNT, tool_ids=[TOOL_ID])
    soon(lambda: list(openwebui.paths.spool.glob("*.json")))
    soon(lambda: "lessons repair" in openwebui.log)
    command = [sys.executable, "-m", "lessons_loop.deploy.cli", "repair", "--store"]
    done = subprocess.run(
        [*command, str(openwebui.paths.root)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.splitlines()[:1]) == (0, ["staging is sound"])
    assert soon(lambda: openwebui.staged()[before:])


def test_killed_server_starts_again_with_the_plugin(openwebui: Server) -> None:
    assert openwebui.child
    openwebui.child.kill()
    openwebui.start()
    assert plugin_is_on(openwebui)
    assert advised(openwebui)


@pytest.mark.parametrize(("seconds", "status"), [(30.0, 200), (0.0, 500)])
def test_failing_embedder_costs_the_lesson_at_most(
    openwebui: Server, seconds: float, status: int
) -> None:  # T-05
    assert advised(openwebui)  # so that an earlier trouble counts as over
    usual = {"domains": f"sql,x{status}", "recall_timeout_ms": 1_500}
    openwebui.admin.set_valves("functions", PLUGIN, VALVES | usual)
    openwebui.provider.embed_seconds, openwebui.provider.embed_status = seconds, status
    warned = openwebui.log.count("recalled by words alone")
    embedded = openwebui.provider.embedded
    assert "Echo" in openwebui.admin.chat(MODEL, GADGETS).text
    assert openwebui.provider.embedded == embedded  # the chat did not wait for it
    assert "Echo" in openwebui.admin.chat(MODEL, GADGETS).text
    assert openwebui.log.count("recalled by words alone") == warned + 1
