"""The policy proxy before a real Chroma: every operation it has, foreign ids, trouble, limits."""

from __future__ import annotations

import concurrent.futures
import json
import re
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import requests

from lessons_loop.deploy.policy import POLICY
from lessons_loop.filter.server import SERVER_SECONDS, open_server, parse_server
from support.chroma_server import COSINE, ChromaServer, fresh_url, prepare
from support.nginx import Proxy
from support.processes import soon
from support.relay import Call, Relay

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
TEMPLATE = "/api/v2/tenants/{tenant}/databases/{database}/collections/{collection_id}"
EVERYWHERE = {
    *(f"GET /api/v2/{name}" for name in ("heartbeat", "version", "pre-flight-checks")),
    "GET /api/v2/auth/identity",
    "GET /api/v2/tenants/{tenant_name}",
}
READING = {f"POST {TEMPLATE}/query", f"POST {TEMPLATE}/get", f"GET {TEMPLATE}/count"}
SEEING = {"GET /api/v2/tenants/{tenant}/databases/{database}", f"GET {TEMPLATE}"}
MAY = {
    "curated": EVERYWHERE | SEEING | READING,
    "staging": EVERYWHERE | SEEING | {f"POST {TEMPLATE}/add"},
    "gate": EVERYWHERE,
}
"""What the order allows, in the words of Chroma's own document."""
ROW = {"ids": ["forged"], "embeddings": [[1.0, 0.0]], "documents": ["forged"]}
ASKING = {"query_embeddings": [[1.0, 0.0]], "n_results": 9}


class Walled(NamedTuple):
    """A Chroma behind the policy, with a collection in each database."""

    proxy: Proxy
    relay: Relay
    chroma: ChromaServer
    tenant: str
    ids: dict[str, str]
    """By database; the collection is called `<database>-x` there."""

    def url(self, database: str, whom: str, verb: str, *, direct: bool = False) -> str:
        """Return the address of an operation on the rows of `whom`'s collection."""
        base = self.chroma.base if direct else self.proxy.base
        place = f"{base}/api/v2/tenants/{self.tenant}/databases/{database}/collections"
        return f"{place}/{self.ids[whom]}/{verb}"

    def rows(self, whom: str) -> list[str]:
        """Return the ids a collection holds, asked of Chroma itself."""
        answer = requests.post(self.url(whom, whom, "get", direct=True), json={}, timeout=60)
        return list(answer.json()["ids"])


@pytest.fixture(scope="module")
def walled(
    tmp_path_factory: pytest.TempPathFactory, chroma_server: ChromaServer
) -> Iterator[Walled]:
    """A tenant of its own behind a proxy; a relay between counts what reaches Chroma."""
    address = parse_server(fresh_url(chroma_server))
    prepare(address)
    ids = {}
    for database in MAY:
        client: Any = open_server(address, database)
        with closing(client):
            made = client.create_collection(
                f"{database}-x", configuration=COSINE, embedding_function=None
            )
            made.add(ids=[f"row-{database}"], embeddings=[[1.0, 0.0]], documents=["x"])
            ids[database] = str(made.id)
    folder = tmp_path_factory.mktemp("walled")
    with (
        Relay(chroma_server.base) as relay,
        Proxy(folder, int(relay.base.rpartition(":")[2]), tenant=address.tenant) as proxy,
    ):
        yield Walled(proxy, relay, chroma_server, address.tenant, ids)


@pytest.mark.parametrize("database", MAY)
def test_every_operation_of_chroma_but_the_listed_is_refused(walled: Walled, database: str) -> None:
    document = requests.get(f"{walled.chroma.base}/openapi.json", timeout=60).json()
    assert len(document["paths"]) >= 25
    passed, reached = set(), set()
    for template in document["paths"]:
        for method in METHODS:
            walled.relay.calls.clear()
            if ask(walled, method, template, database) != 403:
                passed.add(f"{method} {template}")
            if walled.relay.calls:
                reached.add(f"{method} {template}")
    assert passed == reached == MAY[database]


def ask(walled: Walled, method: str, template: str, database: str) -> int:
    """Call an operation with a body that would do; return the status."""
    own = f"{database}-x" if f"{method} {template}" == f"GET {TEMPLATE}" else walled.ids[database]
    names = {"tenant": walled.tenant, "database": database, "collection_id": own}
    path = re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], walled.tenant), template)
    body = ASKING if path.endswith("/query") else ROW if path.endswith("/add") else {"name": "xyz"}
    answer = requests.request(method, walled.proxy.base + path, json=body, timeout=60)
    assert answer.status_code in (200, 201, 403), (method, path, answer.text)
    return answer.status_code


@pytest.mark.parametrize("whom", ["staging", "gate"])
@pytest.mark.parametrize(("verb", "body"), [("get", {}), ("query", ASKING), ("count", None)])
def test_curated_leads_to_no_other_databases_rows(
    walled: Walled, whom: str, verb: str, body: Any
) -> None:
    method = "GET" if body is None else "POST"
    url = walled.url("curated", whom, verb)
    there = requests.request(method, url.replace(walled.proxy.base, walled.chroma.base), json=body)
    assert there.ok  # Chroma itself does not mind: this is why the proxy asks first
    assert requests.request(method, url, json=body, timeout=60).status_code == 403


@pytest.mark.parametrize("whom", ["curated", "gate"])
def test_staging_leads_to_no_other_databases_rows(walled: Walled, whom: str) -> None:
    answer = requests.post(walled.url("staging", whom, "add"), json=ROW, timeout=60)
    assert answer.status_code == 403 and walled.rows(whom) == [f"row-{whom}"]


def test_body_cannot_name_another_collection(walled: Walled) -> None:
    before = {whom: walled.rows(whom) for whom in MAY}
    for field in ("collection_id", "collection", "collection_name", "database", "tenant", "name"):
        for named in ("gate", walled.ids["gate"], "gate-x"):
            extra = {field: named}
            got = requests.post(walled.url("curated", "curated", "get"), json=extra, timeout=60)
            asked = requests.post(
                walled.url("curated", "curated", "query"), json=ASKING | extra, timeout=10
            )
            assert not got.ok or got.json()["ids"] == before["curated"]
            assert not asked.ok or asked.json()["ids"] == [before["curated"]]
            row = ROW | {"ids": ["named"]} | extra
            requests.post(walled.url("staging", "staging", "add"), json=row, timeout=60)
    assert {whom: walled.rows(whom) for whom in ("curated", "gate")} == {
        whom: before[whom] for whom in ("curated", "gate")
    }


def test_collection_made_anew_is_known_at_once(walled: Walled) -> None:
    address = parse_server(f"{walled.chroma.base}?tenant={walled.tenant}")
    client: Any = open_server(address, "staging")
    with closing(client):
        made = client.create_collection("fresh", configuration=COSINE, embedding_function=None)
    added = Walled(*walled[:4], ids={"staging": str(made.id)}).url("staging", "staging", "add")
    assert requests.post(added, json=ROW, timeout=60).status_code == 201


def test_large_body_is_refused_and_a_full_batch_is_not(walled: Walled) -> None:
    url = walled.url("staging", "staging", "add")
    rows = {
        "ids": [f"large-{n}" for n in range(50)],
        "embeddings": [[1.0, 0.0]] * 50,
        "documents": ["x" * 30_000] * 50,
    }
    assert requests.post(url, json=rows, timeout=60).status_code == 201
    walled.relay.calls.clear()
    answer = requests.post(url, json=rows | {"documents": ["x" * 100_000] * 50}, timeout=60)
    assert answer.status_code == 413 and "2 MiB" in answer.json()["message"]
    assert walled.relay.calls == []


def test_fifty_chats_at_once_are_not_held_up(walled: Walled) -> None:
    url = walled.url("curated", "curated", "count")
    with requests.Session() as session, concurrent.futures.ThreadPoolExecutor(50) as pool:
        session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=50))
        answers = [*pool.map(lambda _: session.get(url, timeout=60).status_code, range(300))]
    assert set(answers) == {200}


def test_flood_of_one_client_is_cut_off(tmp_path: Path, chroma_server: ChromaServer) -> None:
    url, answers, answer = "/api/v2/heartbeat", list[int](), threading.Event()

    def held(_: Call) -> None:
        answer.wait(60)

    with (
        Relay(chroma_server.base, spoil=held) as slow,
        Proxy(tmp_path, int(slow.base.rpartition(":")[2])) as proxy,
        concurrent.futures.ThreadPoolExecutor(120) as pool,
    ):

        def ask(_: int) -> None:
            answers.append(requests.get(proxy.base + url, timeout=60).status_code)

        asked = [pool.submit(ask, number) for number in range(120)]
        assert soon(lambda: len(slow.calls) + len(answers) == 120)
        answer.set()
        concurrent.futures.wait(asked)
        assert set(answers) == {200, 429} and len(slow.calls) == answers.count(200) <= 64
        assert requests.get(proxy.base + url, timeout=60).ok
    assert 429 in {line["status"] for line in proxy.told()}


def test_restarted_chroma_is_found_again_at_once(tmp_path: Path) -> None:
    with ChromaServer(tmp_path / "chroma") as chroma, Proxy(tmp_path, chroma.port) as proxy:
        prepare(parse_server(chroma.base), "sql")
        client: Any = open_server(parse_server(proxy.base), "curated")
        with closing(client):
            collection = client.get_collection("sql-lessons", embedding_function=None)
            assert collection.count() == 0 and collection.get()["ids"] == []
            chroma.kill()
            down = requests.get(f"{proxy.base}/api/v2/heartbeat", timeout=60)
            assert (
                down.status_code == 502
                and "no answer from Chroma" in json.loads(down.text)["message"]
            )
            assert requests.get(f"{proxy.base}/healthz", timeout=60).ok
            chroma.start()
            assert collection.get()["ids"] == [] and collection.count() == 0


def test_frozen_chroma_is_told_and_not_waited_for(tmp_path: Path) -> None:
    with (
        ChromaServer(tmp_path / "chroma") as chroma,
        Proxy(tmp_path, chroma.port, patient=False) as proxy,
    ):
        prepare(parse_server(chroma.base), "sql")
        base = f"{proxy.base}/api/v2/tenants/default_tenant/databases/curated/collections"
        one = soon(lambda: requests.get(f"{base}/sql-lessons", timeout=60).json().get("id"))
        chroma.freeze()
        answer = requests.post(f"{base}/{one}/get", json={}, timeout=60)
        chroma.thaw()
    assert answer.status_code in (503, 504)
    assert answer.json()["error"] == "InternalError"


def test_proxy_gives_up_before_the_filter_does() -> None:
    """A connection, and the look-up of an id or the call itself: each is answered in time."""
    found = re.findall(r"proxy_(connect|read)_timeout (\d+)(m?)s;", POLICY.read_text("utf-8"))
    spent = {
        kind: [int(n) / (1000 if milli else 1) for k, n, milli in found if k == kind]
        for kind in ("connect", "read")
    }
    assert len(spent["connect"]) == 1 and len(spent["read"]) >= 2
    assert spent["connect"][0] + max(spent["read"]) < SERVER_SECONDS
