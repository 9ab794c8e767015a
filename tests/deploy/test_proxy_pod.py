"""The committed rules, unchanged, in the pod's own limits: any user, read-only root, /tmp only."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import requests

from lessons_loop.filter.server import parse_server
from support.chroma_server import prepare
from support.containers import Cluster
from support.processes import soon
from support.sandbox import user_ids

TENANT = "/api/v2/tenants/default_tenant"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as made:
        yield made


def answering(url: str) -> requests.Response:
    """Return the first answer that comes."""

    def asked() -> list[requests.Response]:
        with contextlib.suppress(requests.RequestException):
            return [requests.get(url, timeout=60)]
        return []

    return cast(requests.Response, soon(asked)[0])


def test_pod_refuses_and_serves_with_chroma_coming_later(cluster: Cluster) -> None:
    proxy = cluster.pod("Deployment", "lessons-proxy").start("proxy")
    base = cluster.reach(8080)
    assert answering(f"{base}/healthz").json() == {"proxy": "up"}
    assert requests.get(f"{base}/api/v2/heartbeat", timeout=60).status_code == 502
    cluster.serve("StatefulSet", "lessons-chroma")
    assert requests.get(f"{base}{TENANT}", timeout=60).json()["name"] == "default_tenant"
    assert requests.post(f"{base}/api/v2/reset", timeout=60).status_code == 403
    prepare(parse_server(cluster.reach(8000)), "sql")
    place = f"{base}{TENANT}/databases/staging/collections"
    whom = requests.get(f"{place}/sql-lessons-events", timeout=60).json()["id"]
    row = {"ids": ["a"], "embeddings": [[1.0]], "documents": ["x" * 1_900_000]}

    def added() -> bool:  # at last: the committed time limits are short for a busy machine
        return requests.post(f"{place}/{whom}/add", json=row, timeout=60).status_code == 201

    assert soon(added)
    status = Path(f"/proc/{proxy.inner}/status").read_text("utf-8")
    assert user_ids(status)["Uid"] == "101"
    assert int(user_ids(status)["CapEff"], 16) == 0
    proxy.terminate()
    out, errors = proxy.communicate(timeout=120)
    told = [json.loads(line) for line in out.splitlines()]
    assert {(line["path"], line["status"]) for line in told} >= {("/api/v2/reset", 403)}
    assert "emerg" not in errors and "denied" not in errors


def test_pod_runs_as_any_user(cluster: Cluster) -> None:
    pod = cluster.pod("Deployment", "lessons-proxy")
    for owner in (pod.spec["securityContext"], *pod.spec["containers"]):
        context = owner.get("securityContext", owner)
        for field in ("runAsUser", "runAsGroup", "fsGroup"):
            if field in context:
                context[field] = 1_000_660
    started = pod.start("proxy")
    assert answering(f"{cluster.reach(8080)}/healthz").ok
    status = Path(f"/proc/{started.inner}/status").read_text("utf-8")
    assert user_ids(status)["Uid"] == "1000660"
