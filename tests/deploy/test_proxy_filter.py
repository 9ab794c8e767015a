"""The filter behind the real policy proxy, and what others see who end up there."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import chromadb
import pytest
import requests
from chromadb.config import Settings

from lessons_loop.filter.errors import StoreUnreachable
from lessons_loop.filter.server import open_server, parse_server
from lessons_loop.filter.server_staging import ServerStaging
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.exchange.intake import take_in
from lessons_loop.promote.session import GateSettings, open_gate
from lessons_loop.promote.store.initialise import initialise
from support.chroma_server import ChromaServer, fresh_url, prepare, put_curated, rows_of
from support.commands import run_here
from support.filter_chat import EMBEDDER, Chat, scene
from support.gate import HUMAN, candidate
from support.llm_server import LlmServer
from support.nginx import Proxy
from support.outlet import model_reply
from support.ratings import Thumbs
from support.shelf import SERIALS, shelf

SALT = "obviously-fake-salt"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # outside Open WebUI the spool is in ./lessons
    monkeypatch.setenv("LESSONS_SALT", SALT)


@pytest.fixture
def proxy(tmp_path: Path, chroma_server: ChromaServer, store_url: str) -> Iterator[Proxy]:
    """The policy proxy before this test's own tenant."""
    tenant = parse_server(store_url).tenant
    with Proxy(tmp_path, chroma_server.port, tenant=tenant) as started:
        yield started


def behind(proxy: Proxy, store_url: str) -> str:
    """Return the store setting that leads through the proxy."""
    address = parse_server(store_url)
    return store_url.replace(address.base, proxy.base)


def outcomes(store_url: str) -> list[str]:
    """Return the outcomes of the events that were staged, sorted."""
    found = rows_of(store_url, "staging", "sql-lessons-events")["metadatas"]
    return sorted(str(row["outcome"]) for row in found)


def test_filter_works_unchanged_behind_the_proxy(proxy: Proxy, store_url: str) -> None:
    prepare(parse_server(store_url), "sql")
    put_curated(store_url, shelf()[:1], EMBEDDER)
    thumbs = Thumbs(Path("lessons"))
    thumbs.host.valves["store"] = behind(proxy, store_url)
    thumbs.rate("f", -1)

    async def play(chat: Chat) -> list[list[str]]:
        before = await chat.ask("a question about nothing the lessons know")
        await chat.finish()
        put_curated(store_url, shelf(), EMBEDDER, rev=2)
        await chat.tick()
        return [before, await chat.ask()]

    with LlmServer([model_reply()]) as model:
        learning = {"distill_enabled": True, "distill_url": model.url, "distill_model": "m"}
        chat = Chat(behind(proxy, store_url), **learning)
        blocks = scene(chat, play)
    staged = rows_of(store_url, "staging", "sql-lessons-candidates")
    assert SERIALS in blocks[1][0]  # recall, after curated changed
    assert "serial_key" in staged["documents"][0]  # what was learnt
    assert "down" in outcomes(store_url)  # the thumb
    assert proxy.told() == []


def test_what_the_gate_curates_reaches_the_chat(
    proxy: Proxy, store_url: str, tmp_path: Path
) -> None:
    initialise(store_url, ["sql"], EMBEDDER, tmp_path / "state")

    async def play(chat: Chat) -> tuple[list[str], list[str]]:
        before = await chat.ask()
        made = [lesson.lesson.model_copy(update={"source": "taught"}) for lesson in shelf()]
        with open_gate(GateSettings(store_url, "sql", tmp_path / "state", EMBEDDER)) as gate:
            take_in(gate, [(lesson, lesson.key[:12]) for lesson in made], HUMAN)
        await chat.tick()
        return before, await chat.ask()

    before, after = scene(Chat(behind(proxy, store_url)), play)
    assert before == [] and SERIALS in after[0] and proxy.told() == []


@contextlib.contextmanager
def plain_client(proxy: Proxy, tenant: str, database: str) -> Iterator[Any]:
    """Open Chroma's own client, as a plugin changed by an attacker would."""
    client: Any = chromadb.HttpClient(
        "127.0.0.1",
        proxy.port,
        tenant=tenant,
        database=database,
        settings=Settings(anonymized_telemetry=False),
    )
    try:
        yield client
    finally:
        client._server._session.close()
        client._admin_client._server._session.close()


ROW = {"ids": ["forged"], "documents": ["forged"], "embeddings": [[1.0] * 256]}
ATTACKS = {
    "add": lambda curated, staged: curated.add(**ROW),
    "upsert": lambda curated, staged: curated.upsert(**ROW),
    "update": lambda curated, staged: curated.update(**ROW),
    "delete": lambda curated, staged: curated.delete(ids=["forged"]),
    "rename": lambda curated, staged: curated.modify(name="mine"),
    "fork": lambda curated, staged: curated.fork("mine"),
    "read staging": lambda curated, staged: staged.get(),
    "peek at staging": lambda curated, staged: staged.peek(),
    "query staging": lambda curated, staged: staged.query(query_embeddings=[[1.0]]),
    "count staging": lambda curated, staged: staged.count(),
    "delete staged": lambda curated, staged: staged.delete(ids=["x"]),
    "write curated by its id": lambda curated, staged: swapped(staged, curated).add(**ROW),
    "read staging by its id": lambda curated, staged: swapped(curated, staged).get(),
}


def swapped(here: Any, there: Any) -> Any:
    """Let a collection's handle carry another one's id: what Chroma itself would follow."""
    here._model.id = there.id
    return here


class Attacked(NamedTuple):
    """A store behind a proxy, and Chroma's own clients that go through it."""

    proxy: Proxy
    url: str
    curated: Any
    staging: Any

    def rows(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what the gate's side holds."""
        curated = rows_of(self.url, "curated", "sql-lessons")
        return curated, rows_of(self.url, "staging", "sql-lessons-candidates")


@pytest.fixture(scope="module")
def attacked(
    tmp_path_factory: pytest.TempPathFactory, chroma_server: ChromaServer
) -> Iterator[Attacked]:
    url = fresh_url(chroma_server)
    address = parse_server(url)
    prepare(address, "sql")
    put_curated(url, shelf(), EMBEDDER)
    folder = tmp_path_factory.mktemp("attacked")
    with (
        Proxy(folder, chroma_server.port, tenant=address.tenant) as proxy,
        plain_client(proxy, address.tenant, "curated") as curated,
        plain_client(proxy, address.tenant, "staging") as staging,
    ):
        yield Attacked(proxy, url, curated, staging)


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_changed_plugin_can_do_no_more(attacked: Attacked, attack: Any) -> None:
    kept, told = attacked.rows(), len(attacked.proxy.told())
    lessons = attacked.curated.get_collection("sql-lessons", embedding_function=None)
    staged = attacked.staging.get_collection("sql-lessons-candidates", embedding_function=None)
    with pytest.raises(Exception, match="policy proxy refuses") as raised:
        attack(lessons, staged)
    assert "\n" not in str(raised.value).strip()
    assert attacked.rows() == kept
    assert [line["status"] for line in attacked.proxy.told()[told:]] == [403]


def test_rows_wait_while_chroma_is_away(tmp_path: Path) -> None:  # T-31
    with ChromaServer(tmp_path / "chroma") as chroma, Proxy(tmp_path, chroma.port) as proxy:
        prepare(parse_server(chroma.base), "sql")
        staging = ServerStaging(parse_server(proxy.base))
        spool = Spool(StorePaths(tmp_path / "own"), staging)
        with contextlib.closing(staging):
            spool.append_candidates([candidate(message="m1")])
            assert spool.drain() == 1
            for trouble, over in ((chroma.kill, chroma.start), (proxy.stop, proxy.start)):
                trouble()
                spool.append_candidates([candidate(message=f"m-{trouble.__qualname__}")])
                with pytest.raises(StoreUnreachable):
                    spool.drain()
                over()
                assert spool.drain() == 1 and spool.waiting() == 0
        found = rows_of(chroma.base, "staging", "sql-lessons-candidates")
    assert len(found["ids"]) == 3


def test_gate_at_the_proxys_address_is_told_so(
    proxy: Proxy, store_url: str, tmp_path: Path
) -> None:
    prepare(parse_server(store_url), "sql")
    place = ["--store", behind(proxy, store_url), "--state-dir", str(tmp_path / "state")]
    for words in (["init", "--domain", "sql"], ["promote", "--domain", "sql"], ["verify"]):
        done = run_here(*words, *place)
        (line,) = done.err.strip().splitlines()[-1:]
        assert done.code == 1 and "policy proxy" in line and "Chroma's own address" in line
        assert "Traceback" not in done.err


def test_doctor_names_the_proxys_address(proxy: Proxy, store_url: str, tmp_path: Path) -> None:
    prepare(parse_server(store_url), "sql")
    place = ["--store", behind(proxy, store_url), "--state-dir", str(tmp_path / "state")]
    found = json.loads(run_here("doctor", *place, "--json").out)
    (told,) = (one for one in found["findings"] if one["check"] == "store")
    assert told["level"] == "problem" and "policy proxy" in told["text"]
    assert "LESSONS_STORE" in told["remedy"] and "8000" in told["remedy"]


def test_refused_add_leaves_the_rows_waiting(proxy: Proxy, store_url: str, tmp_path: Path) -> None:
    prepare(parse_server(store_url), "sql")
    other = behind(proxy, store_url).partition("?")[0]  # a tenant the proxy does not serve
    staging = ServerStaging(parse_server(other))
    spool = Spool(StorePaths(tmp_path / "own"), staging)
    with contextlib.closing(staging):
        spool.append_candidates([candidate()])
        with pytest.raises(StoreUnreachable, match="policy proxy refuses"):
            spool.drain()
    assert spool.waiting() == 1


def test_client_of_ours_needs_no_more_than_the_policy(proxy: Proxy, store_url: str) -> None:
    prepare(parse_server(store_url), "sql")
    client: Any = open_server(parse_server(behind(proxy, store_url)), "curated")
    with contextlib.closing(client):
        assert client.get_collection("sql-lessons", embedding_function=None).count() == 0
    assert requests.get(f"{proxy.base}/healthz", timeout=60).json() == {"proxy": "up"}
    assert proxy.told() == []
