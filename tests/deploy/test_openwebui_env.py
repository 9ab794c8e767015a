"""A real Open WebUI with the env block: lessons beside its own documents, apart from them."""

from __future__ import annotations

import dataclasses
import re
import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests
import yaml

from lessons_loop.deploy.processes import loopback_session
from lessons_loop.filter.models import Kind, Lesson
from lessons_loop.filter.server import parse_server
from lessons_loop.promote.exchange.intake import take_in
from lessons_loop.promote.records import Actor
from lessons_loop.promote.session import GateSettings, open_gate
from lessons_loop.promote.store.initialise import initialise
from support.chroma_server import ChromaServer, fresh_url, prepare, rows_of
from support.commands import run_here
from support.env_block import env_block
from support.nginx import Proxy
from support.openwebui import MODEL, PLUGIN, VALVES, Server
from support.operators_page import lessons_lines
from support.processes import soon
from support.provider import Provider, content_text, system_text

FILTER = Path(__file__).parents[2] / "filter"
RENDERED = Path(__file__).parents[2] / "deploy" / "rendered"
PROXY = "http://lessons-proxy.lessons.svc:8080"
SECRETS = {"lessons-secrets": {"LESSONS_SALT": "obviously-fake-salt"}}
QUESTION = "How do I count the sprockets in the warehouse on pallet 7731?"
ADVICE = "Count sprockets in the sprocket_ledger table, never by scanning shelf_notes."
DOCUMENT = "Pallet 7731 of the warehouse holds the sprockets painted heliotrope."


class Stack(NamedTuple):
    """Open WebUI, the lessons' Chroma, and what stands between."""

    openwebui: Server
    chroma: ChromaServer
    proxy: Proxy


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Start everything once; the block's own words, its names led to loopback."""
    folder = tmp_path_factory.mktemp("env-block")
    with Provider() as provider, ChromaServer(folder / "chroma") as chroma:
        server = Server(folder / "pod", provider)
        teach(chroma.base, folder / "state", server)
        with Proxy(folder, chroma.port) as proxy:
            block = env_block().resolved(SECRETS)
            local = {name: value.replace(PROXY, proxy.base) for name, value in block.items()}
            server.settings = dataclasses.replace(
                server.settings, extra={"BYPASS_MODEL_ACCESS_CONTROL": "true"} | local
            )
            try:
                server.start()
                install(server)
                yield Stack(server, chroma, proxy)
            finally:
                server.stop()


def install(server: Server) -> None:
    """Install the plugin with the deployment page's own line, its address and domain put in."""
    line = next(line for line in lessons_lines() if line.startswith("lessons install"))
    words = shlex.split(line)[1:]
    for option, value in (("--url", server.settings.url), ("--domain", "sql")):
        words[words.index(option) + 1] = value
    ours = [f"--set={name}={VALVES[name]}" for name in ("min_similarity", "recall_timeout_ms")]
    done = run_here(*words, "--token", server.admin.token, *ours)
    assert done.code == 0, done.err
    assert server.admin.valves("functions", PLUGIN) == VALVES


def teach(url: str, state: Path, server: Server) -> None:
    """Make the store as `lessons init` does and put one lesson into curated."""
    initialise(url, ["sql"], server.embedder, state)
    trigger = "counting sprockets in the warehouse"
    made = Lesson(domain="sql", kind=Kind.PERF_GUARD, trigger=trigger, text=ADVICE, source="taught")
    with open_gate(GateSettings(url, "sql", state, server.embedder)) as session:
        take_in(session, [(made, made.key[:12])], Actor(kind="seed", name="test"))


def uploaded(server: Server) -> dict[str, Any]:
    """Upload a document as the page does and wait until it is embedded."""
    answer = loopback_session().post(
        f"{server.settings.url}/api/v1/files/",
        headers={"Authorization": f"Bearer {server.admin.token}"},
        files={"file": ("pallets.txt", DOCUMENT.encode(), "text/plain")},
        timeout=60,
    )
    answer.raise_for_status()
    file = answer.json()
    status = f"/api/v1/files/{file['id']}/process/status"
    soon(lambda: server.admin.ask("GET", status)["status"] == "completed")
    return {"type": "file", "id": file["id"], "name": "pallets.txt", "file": file}


def told(stack: Stack, **options: Any) -> tuple[str, str]:
    """Ask on a page; return the system text and all text the model was given."""
    stack.openwebui.provider.clear()
    assert stack.openwebui.ask(QUESTION, **options).ended
    (body,) = stack.openwebui.provider.received(QUESTION)[:1]
    return system_text(body), "\n".join(content_text(m["content"]) for m in body["messages"])


def recalled(stack: Stack) -> bool:
    """Ask without a file and tell whether the lesson came."""
    stack.openwebui.provider.clear()
    assert stack.openwebui.admin.chat(MODEL, QUESTION).status_code == 200
    return ADVICE in system_text(stack.openwebui.provider.received(QUESTION)[0])


def lessons_collections(stack: Stack) -> set[str]:
    """Return the names of all collections in the lessons' Chroma, of every database."""
    base = f"{stack.chroma.base}/api/v2/tenants/default_tenant/databases"
    names: set[str] = set()
    for database in requests.get(base, timeout=60).json():
        found = requests.get(f"{base}/{database['name']}/collections", timeout=60).json()
        names |= {row["name"] for row in found}
    return names


def own_collections(stack: Stack) -> set[str]:
    """Return the names of the collections in Open WebUI's own vector store."""
    file = stack.openwebui.settings.data / "vector_db" / "chroma.sqlite3"
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
        return {name for (name,) in db.execute("SELECT name FROM collections")}


def test_block_names_only_settings_the_plugin_or_glibc_reads() -> None:
    read = set()
    for module in FILTER.glob("*.py"):
        read |= set(re.findall(r'environ\.get\("(LESSONS_\w+)"', module.read_text("utf-8")))
    named = [entry["name"] for entry in env_block().entries]
    assert named and set(named) <= read | {"MALLOC_ARENA_MAX"}


@pytest.mark.parametrize("overlay", ["small", "production"])
def test_block_leads_to_the_proxy_of_each_overlay(overlay: str) -> None:
    objects = list(yaml.safe_load_all((RENDERED / f"{overlay}.yaml").read_text("utf-8")))
    service = next(
        o for o in objects if o["kind"] == "Service" and "proxy" in o["metadata"]["name"]
    )
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    port = service["spec"]["ports"][0]["port"]
    assert env_block().resolved(SECRETS)["LESSONS_STORE"] == f"http://{name}.{namespace}.svc:{port}"
    policies = [
        o for o in objects if o["kind"] == "NetworkPolicy" and o["metadata"]["name"] == name
    ]
    (rule,) = policies[0]["spec"]["ingress"]
    assert [peer["podSelector"]["matchLabels"] for peer in rule["from"]][-1] == env_block().labels


def test_block_without_its_secret_starts_nothing() -> None:
    with pytest.raises(KeyError, match="lessons-secrets"):
        env_block().resolved({})
    assert all("optional" not in str(entry) for entry in env_block().entries)


def test_file_and_lesson_reach_the_same_answer(stack: Stack) -> None:
    soon(lambda: recalled(stack))
    system, everything = told(stack, files=[uploaded(stack.openwebui)])
    assert "heliotrope" in everything
    assert ADVICE in system


def test_neither_store_holds_the_other_ones_collections(stack: Stack) -> None:
    soon(lambda: recalled(stack))
    uploaded(stack.openwebui)
    ours, own = lessons_collections(stack), own_collections(stack)
    assert {name for name in own if name.startswith("file-")}
    assert not [name for name in own if "lessons" in name]
    assert ours and all(name.startswith("sql-") for name in ours)


def test_use_of_a_lesson_is_staged_through_the_proxy(stack: Stack) -> None:
    soon(lambda: recalled(stack))
    told(stack)
    events = soon(lambda: rows_of(stack.chroma.base, "staging", "sql-lessons-events")["ids"])
    assert events
    refusals = (403, 413, 429)
    assert not [line for line in stack.proxy.told() if int(line["status"]) in refusals]


def test_resetting_the_vector_storage_leaves_lessons_alone(stack: Stack) -> None:
    soon(lambda: recalled(stack))
    uploaded(stack.openwebui)
    before = rows_of(stack.chroma.base, "curated", "sql-lessons")
    stack.openwebui.admin.ask("POST", "/api/v1/retrieval/reset/db")
    assert not own_collections(stack)
    assert rows_of(stack.chroma.base, "curated", "sql-lessons") == before
    assert recalled(stack)


def test_valve_wins_over_the_block(stack: Stack) -> None:
    soon(lambda: recalled(stack))
    elsewhere = fresh_url(stack.chroma)
    prepare(parse_server(elsewhere), "sql")
    admin = stack.openwebui.admin
    admin.set_valves("functions", PLUGIN, VALVES | {"store": elsewhere})
    try:
        assert not recalled(stack)
    finally:
        admin.set_valves("functions", PLUGIN, VALVES)
    assert soon(lambda: recalled(stack))
