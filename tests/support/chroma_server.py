"""A real Chroma server for tests, one per test session; each test has its own tenant.

    def test_x(store_url):            # nothing exists there yet
        address = parse_server(store_url)
        prepare(address, "sql")       # what `lessons init` makes, without the gate

Tests that kill, freeze or restart a server start their own: `with ChromaServer(tmp_path) as s`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import requests
from chromadb.api.client import AdminClient
from chromadb.config import Settings

from lessons_loop.deploy.processes import free_port
from lessons_loop.filter.embed import Embedder, Purpose, fingerprint
from lessons_loop.filter.models import Curated, Record
from lessons_loop.filter.server import ServerAddress, open_server, parse_server
from lessons_loop.filter.store import collection_names
from lessons_loop.promote.embedding.calibrate import calibrate
from lessons_loop.promote.store.curated import Header

COSINE = {"hnsw": {"space": "cosine"}}


class ChromaServer:
    """`chroma run` on a folder and a port that stay the same over restarts."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        self.folder, self.port = folder, port or free_port()
        self.running: subprocess.Popen[bytes] | None = None

    @property
    def base(self) -> str:
        """Return the address without a tenant."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start it and wait until it answers; it ends with these tests, however they end."""
        leash = [sys.executable, "-m", "lessons_loop.deploy.leash", str(os.getpid())]
        program = str(Path(sys.executable).with_name("chroma"))
        place = ["--path", str(self.folder), "--host", "127.0.0.1", "--port", str(self.port)]
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "server.log").open("ab") as log:
            self.running = subprocess.Popen(
                [*leash, program, "run", *place], stdout=log, stderr=log, cwd=self.folder
            )
        self._await_answer(time.monotonic() + 120)
        return self

    def _await_answer(self, deadline: float) -> None:
        while True:
            with contextlib.suppress(requests.RequestException):
                if requests.get(f"{self.base}/api/v2/heartbeat", timeout=5).ok:
                    return
            assert self.running and self.running.poll() is None, "chroma ended"
            assert time.monotonic() < deadline, "chroma does not answer"
            time.sleep(0.05)

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in good order."""
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """Let it accept connections and never answer."""
        assert self.running
        self.running.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self.running
        self.running.send_signal(signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        if self.running is not None:
            self.running.send_signal(how)
            self.running.send_signal(signal.SIGCONT)
            self.running.wait(60)
            self.running = None

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it."""
        self.kill()


def fresh_url(server: ChromaServer) -> str:
    """Return a store setting whose tenant does not exist yet."""
    return f"{server.base}?tenant=t-{uuid.uuid4().hex[:12]}"


@contextlib.contextmanager
def admin(address: ServerAddress) -> Any:
    """Open what may make tenants and databases."""
    settings = Settings(
        chroma_api_impl="chromadb.api.fastapi.FastAPI",
        chroma_server_host=address.base,
        chroma_server_http_port=address.port,
        anonymized_telemetry=False,
    )
    client = AdminClient(settings)
    try:
        yield client
    finally:
        client._server._session.close()  # type: ignore[attr-defined]
        client._system.stop()


def prepare(address: ServerAddress, *domains: str) -> None:
    """Make tenant, databases and the filter's collections, empty."""
    with admin(address) as client:
        with contextlib.suppress(Exception):
            client.create_tenant(address.tenant)
        for database in ("curated", "staging", "gate"):
            client.create_database(database, tenant=address.tenant)
    for domain in domains:
        names = collection_names(domain)
        header = Header(domain=domain, state_id="test", state_dir="elsewhere").model_dump()
        with contextlib.closing(open_server(address, "curated")) as curated:  # type: ignore[type-var]
            create(curated, names["curated"], header)
        with contextlib.closing(open_server(address, "staging")) as staging:  # type: ignore[type-var]
            create(staging, names["candidates"])
            create(staging, names["events"])


def create(client: Any, name: str, metadata: dict[str, Any] | None = None) -> Any:
    """Make a collection as the gate does."""
    return client.create_collection(
        name, configuration=COSINE, metadata=metadata, embedding_function=None
    )


def rows_of(url: str, database: str, name: str) -> dict[str, Any]:
    """Return ids, documents and metadatas of one collection."""
    client: Any = open_server(parse_server(url), database)
    with contextlib.closing(client):
        found = client.get_collection(name, embedding_function=None).get()
    return dict(found)


def put_curated(
    url: str,
    lessons: Sequence[Curated],
    embedder: Embedder | None,
    rev: int = 1,
    **header: Any,
) -> None:
    """Write the lessons of one domain as the gate does: rows, then the header with the floors."""
    domain = lessons[0].lesson.domain if lessons else "sql"
    vectors = np.ones((len(lessons), 1), np.float32)
    if embedder and lessons:
        vectors = embedder.embed([c.lesson.embedded_text for c in lessons], Purpose.DOCUMENT)
    floors = calibrate(lessons, vectors if embedder else None, embedder)
    client: Any = open_server(parse_server(url), "curated")
    with contextlib.closing(client):
        collection = client.get_collection(
            collection_names(domain)["curated"], embedding_function=None
        )
        if old := collection.get(include=[])["ids"]:
            collection.delete(ids=old)
        put_rows(collection, [c.to_record() for c in lessons], vectors)
        own = Header(
            domain=domain,
            state_id="test",
            state_dir="elsewhere",
            embedding=fingerprint(embedder).model_dump_json() if embedder else "",
            rev=rev,
            floor=-1.0 if floors.floor is None else floors.floor,
            lexical_floor=floors.lexical_floor,
            mean=json.dumps(floors.mean) if floors.mean else "",
            calibrated_rev=rev,
        )
        collection.modify(metadata=own.model_dump() | header)


def put_rows(collection: Any, records: Sequence[Record], vectors: Any) -> None:
    """Add rows with their vectors."""
    for start in range(0, len(records), 500):
        batch = records[start : start + 500]
        collection.add(
            ids=[r.id for r in batch],
            documents=[r.document for r in batch],
            metadatas=[dict(r.metadata) for r in batch],
            embeddings=[*map(list, vectors[start : start + 500].tolist())],
        )
