"""Plugin and gate of different releases on one store: each pair is a stage of an upgrade.

| store                    | plugin of schema 1                   | plugin of this release       |
|--------------------------|--------------------------------------|------------------------------|
| schema 1                 | recalls                              | recalls                      |
| schema 2, folder         | recalls (the file leaves proofs out) | recalls                      |
| schema 2, server         | keeps what it has, one warning       | recalls                      |
| later, min_reader 2      | keeps what it has, one warning       | recalls what it knows of it  |
| later, not for it        | keeps what it has, one warning       | keeps what it has, a warning |
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lessons_loop.deploy.doctor.chat import HostFacts, plugin_findings
from lessons_loop.deploy.doctor.findings import Level
from lessons_loop.deploy.doctor.schema import schema_findings
from lessons_loop.deploy.webui.plugin_file import plugin_source
from lessons_loop.filter import lessons_filter
from lessons_loop.filter.schema import SCHEMA
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.store.migrate import Wish, migrate_store
from support.filter_chat import Request, close_filter
from support.gate import (
    HashEmbedder,
    flags,
    gate,
    located,
    on_folder,
    on_server,
    raw_client,
    server_url,
)
from support.older import measured, older_plugin, put_older, set_metadata
from support.patient import PATIENT_MS
from support.shelf import app_with
from support.templates import copied

QUESTION = "how do I bound telemetry_hours by day_key for one machine?"
LESSON = "Bound telemetry_hours by day_key."


class Running:
    """A plugin of some release at work on a store."""

    def __init__(self, module: ModuleType, root: Path) -> None:
        self.module, self.filter = module, module.Filter()
        self.filter.valves = self.filter.Valves(
            store=server_url(root) or str(root), domains="sql", recall_timeout_ms=PATIENT_MS
        )
        self.request = Request(app_with(HashEmbedder()))

    async def ask(self) -> str:
        """Ask a question after a look at the store; return what the model is given."""
        await self.module.tick(self.filter)
        found = await self.filter.inlet(
            body={"model": "m", "messages": [{"role": "user", "content": QUESTION}]},
            __user__={"id": "user-1", "valves": self.filter.UserValves()},
            __metadata__={"chat_id": "chat-1"},
            __request__=self.request,
        )
        assert found["messages"][-1]["content"] == QUESTION
        return "\n".join(str(one["content"]) for one in found["messages"][:-1])

    async def close(self) -> None:
        """End its timer and connections."""
        await close_filter(self.filter)


def asked(module: ModuleType, root: Path, *between: Any) -> list[str]:
    """Ask before and after each of `between`; return what the model was given each time."""

    async def play() -> list[str]:
        running = Running(module, root)
        try:
            found = [await running.ask()]
            for change in between:
                await asyncio.to_thread(change)
                found.append(await running.ask())
            return found
        finally:
            await running.close()

    return asyncio.run(play())


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)  # outside Open WebUI the spool is in ./lessons
    yield


@pytest.fixture
def older(root: Path) -> Path:
    copied(put_older, root)
    return root


def migrate(root: Path, to: int = SCHEMA) -> None:
    migrate_store(Wish(flags(root)[1], located(root).state, to))


def prove(root: Path) -> None:
    """Store a proof: what a plugin of schema 1 cannot read."""
    with gate(root) as session:
        (key,) = (row.key for row in session.curated.values() if row.lesson.text == LESSON)
        session.apply(measured(session, key))


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


PLUGINS = pytest.mark.parametrize("plugin", ["schema 1", "this release"])


def plugin_of(name: str) -> ModuleType:
    return older_plugin() if name == "schema 1" else lessons_filter


@PLUGINS
def test_both_recall_from_schema_1(
    older: Path, plugin: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert LESSON in asked(plugin_of(plugin), older)[0] and warnings(caplog) == []


@PLUGINS
@on_folder
def test_both_recall_from_the_published_file(
    older: Path, plugin: str, caplog: pytest.LogCaptureFixture
) -> None:
    migrate(older)
    prove(older)
    assert LESSON in asked(plugin_of(plugin), older)[0] and warnings(caplog) == []


@on_server
def test_older_plugin_warns_once_and_recalls_after_going_back(
    older: Path, caplog: pytest.LogCaptureFixture
) -> None:
    migrate(older)
    prove(older)
    found = asked(older_plugin(), older, lambda: None, lambda: migrate(older, 1))
    assert found[:2] == ["", ""] and LESSON in found[2]  # chats go on without, then with lessons
    assert len(warnings(caplog)) == 1
    assert "has schema 2, this plugin knows 1: upgrade it" in warnings(caplog)[0]


@on_server
def test_older_plugin_at_work_keeps_its_lessons(
    older: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = asked(older_plugin(), older, lambda: migrate(older), lambda: prove(older))
    assert all(LESSON in one for one in found) and len(warnings(caplog)) == 1


@on_server
def test_plugin_of_this_release_reads_what_the_gate_writes(
    older: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = asked(lessons_filter, older, lambda: migrate(older), lambda: prove(older))
    assert all(LESSON in one for one in found) and warnings(caplog) == []


def later_release(root: Path, min_reader: int | None) -> None:
    """Make the store what a release of the next schema leaves: fields nobody here knows."""
    fields = {"schema_version": SCHEMA + 1}
    if min_reader is not None:
        fields["min_reader"] = min_reader
    if not server_url(root):
        path = StorePaths(root).published("sql")
        head, body = path.read_bytes().split(b"\n", 1)
        header = {n: v for n, v in json.loads(head).items() if n != "min_reader"}
        header |= {**fields, "moods": 2}
        path.write_bytes(json.dumps(header).encode() + b"\n" + body)
        return
    with raw_client(root, "curated") as client:
        collection = client.get_collection("sql-lessons", embedding_function=None)
        ids = collection.get(include=[])["ids"]
        collection.update(ids=ids, metadatas=[{"mood": "sure", "scope": ["a"]}] * len(ids))
    set_metadata(root, "curated", "sql-lessons", **fields, moods=2, rev=99)


def test_what_a_later_release_added_is_left_out(
    older: Path, caplog: pytest.LogCaptureFixture
) -> None:
    migrate(older)
    later_release(older, SCHEMA)
    assert LESSON in asked(lessons_filter, older)[0] and warnings(caplog) == []


@PLUGINS
@on_server
def test_store_of_a_later_release_is_one_warning(
    older: Path, plugin: str, caplog: pytest.LogCaptureFixture
) -> None:
    migrate(older)
    later_release(older, None)
    assert asked(plugin_of(plugin), older, lambda: None) == ["", ""]
    assert len(warnings(caplog)) == 1 and f"has schema {SCHEMA + 1}" in warnings(caplog)[0]


def test_lessons_read_before_stay_in_use(older: Path, caplog: pytest.LogCaptureFixture) -> None:
    migrate(older)
    found = asked(lessons_filter, older, lambda: later_release(older, None))
    assert all(LESSON in one for one in found)
    (warning,) = warnings(caplog)
    assert f"schema {SCHEMA + 1}, this plugin knows {SCHEMA}" in warning
    assert "install the plugin of the release that wrote it" in warning


@on_folder
def test_unknown_fields_in_published_lines_are_left_out(older: Path) -> None:
    import hashlib

    migrate(older)
    path = StorePaths(older).published("sql")
    head, body = path.read_bytes().split(b"\n", 1)
    header = json.loads(head)
    lines = [json.loads(one) for one in body[: header["lessons_bytes"]].splitlines()]
    for one in lines:
        one["mood"], one["lesson"]["scope"] = "sure", {"deep": [1]}
    text = "".join(json.dumps(one) + "\n" for one in lines).encode()
    size = 4 * header["count"] * header["dimension"]
    body = text + b" " * (-len(text) % 64) + body[-size:]
    header |= {"lessons_bytes": len(text), "sha256": hashlib.sha256(body).hexdigest()}
    path.write_bytes(json.dumps(header).encode() + b"\n" + body)
    assert LESSON in asked(lessons_filter, older)[0]


# --- what doctor says of such pairs


def facts(source: str) -> HostFacts:
    plugin = {"id": "lessons_filter", "is_active": True, "is_global": True}
    return HostFacts("http://h", "0.12.4", plugins=(plugin,), source=source)


def stored(schema: int | None) -> dict[str, Any]:
    return {"schema": {"store": schema, "release": SCHEMA}}


@pytest.mark.parametrize(
    ("store", "plugin", "level", "remedy"),
    [
        (SCHEMA, SCHEMA, Level.OK, ""),
        (1, SCHEMA, Level.OK, ""),
        (SCHEMA, 1, Level.PROBLEM, "lessons install --url http://h"),
        (1, 1, Level.OK, ""),
        (SCHEMA, SCHEMA + 1, Level.OK, ""),
    ],
)
def test_doctor_compares_plugin_and_store(
    store: int, plugin: int, level: Level, remedy: str
) -> None:
    line = f"schema: {plugin}\n" if plugin > 1 else ""  # the first releases did not say
    (finding,) = schema_findings(stored(store), f'"""\ntitle: x\n{line}"""\n', "http://h")
    assert (finding.check, finding.level, finding.remedy) == ("schema", level, remedy)
    assert f"store {store}, this release {SCHEMA}, plugin {plugin}" in finding.text


def test_doctor_says_nothing_of_what_it_does_not_know() -> None:
    assert schema_findings(stored(None), "", "") == []
    assert schema_findings({}, "", "") == []


@pytest.mark.parametrize(("change", "level"), [("0.0.9", Level.PROBLEM), ("9.0", Level.WARNING)])
def test_doctor_tells_older_plugins_from_later_ones(change: str, level: Level) -> None:
    source = plugin_source().replace("version: 0.1.0", f"version: {change}", 1)
    finding = plugin_findings(facts(source), plugin_source())[-1]
    assert finding.level is level and change in finding.text
    assert ("upgrade lessons-loop" in finding.remedy) is (level is Level.WARNING)
