"""Test tools for the gate: a deterministic embedder, builders, staging as the plugin fills it.

A test's store is a folder `root`. Where it lies on a server, `root` holds the address
(`server.url`) and the state directory, so that tests say the same for both.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lessons_loop.filter.embed import Purpose, Vectors, unit_rows
from lessons_loop.filter.events import Usage
from lessons_loop.filter.models import (
    Candidate,
    Curated,
    Evidence,
    EvidenceKind,
    Kind,
    Lesson,
    Record,
    Status,
)
from lessons_loop.filter.published import PublishedSet, read_published
from lessons_loop.filter.server import open_server, parse_server
from lessons_loop.filter.server_shelf import CuratedServer
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import (
    STAGING_VECTOR,
    StorePaths,
    append_records,
    collection_names,
    open_embedded,
    staging_session,
)
from lessons_loop.promote.records import Action, Actor, Archived, Change
from lessons_loop.promote.session import GateSession, GateSettings, open_gate
from lessons_loop.promote.state import Located, locate

WHEN = "2026-11-01T08:00:00Z"
HUMAN = Actor(kind="human", name="alex")
_WORD = re.compile(r"\w+")
on_folder = pytest.mark.parametrize("store_kind", ["folder"])
"""For tests that are about files of an embedded store."""
on_server = pytest.mark.parametrize("store_kind", ["server"])


class HashEmbedder:
    """Bag of words: texts that share words are near; the same everywhere, instantly."""

    def __init__(
        self,
        dimension: int = 64,
        name: str = "",
        prefixes: tuple[str, str] = ("", ""),
        salt: str = "",
    ) -> None:
        self.dimension = dimension
        self.name = name or f"hash-{dimension}"
        self.prefixes = prefixes
        self.salt = salt
        self.asked: list[tuple[str, Purpose]] = []
        """Every text as it was embedded, prefix included."""

    def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        prefix = self.prefixes[0 if purpose is Purpose.QUERY else 1]
        self.asked += [(prefix + text, purpose) for text in texts]
        return unit_rows([self._row(prefix + text) for text in texts], len(texts))

    def _row(self, text: str) -> list[float]:
        row = [0.001] * self.dimension
        for word in _WORD.findall(text.casefold()):
            code = int.from_bytes(hashlib.sha256((self.salt + word).encode()).digest()[:8], "big")
            row[code % self.dimension] += 1.0 if code & (1 << 40) else -1.0
        return row


def lesson(text: str = "Look serials up in equipment_machine.", **fields: Any) -> Lesson:
    """Return a valid lesson; `fields` replace the defaults."""
    defaults: dict[str, Any] = {
        "domain": "sql",
        "kind": Kind.RESOLUTION_PATTERN,
        "trigger": "questions about one machine",
        "tags": ("serial",),
    }
    return Lesson(text=text, **(defaults | fields))


def candidate(
    text: str = "Look serials up in equipment_machine.",
    *,
    message: str = "message-1",
    user: str = "user-1",
    chat: str = "chat-1",
    at: str = WHEN,
    evidence: Evidence | None = None,
    **fields: Any,
) -> Candidate:
    """Return a valid candidate; `fields` go to its lesson."""
    proof = evidence or Evidence(
        kind=EvidenceKind.TOOL_SUCCESS,
        quote="3 rows from equipment_machine",
        excerpt="[2] call run_sql: select from equipment_machine\n"
        "[3] result run_sql: 3 rows from equipment_machine",
        tools=("run_sql",),
    )
    return Candidate(
        lesson=lesson(text, **fields),
        evidence=proof,
        message_ref=message,
        chat_ref=chat,
        user_ref=user,
        model="practice-model",
        prompt="distill-1",
        at=at,
    )


def curated(found: Lesson, **fields: Any) -> Curated:
    """Return a curated record of a lesson."""
    return Curated(lesson=found.model_copy(update={"status": Status.CURATED}), since=WHEN, **fields)


def archived(found: Lesson, status: Status = Status.REJECTED, **fields: Any) -> Archived:
    """Return an archived record of a lesson."""
    gone = found.model_copy(update={"status": status})
    return Archived(**({"lesson": gone, "reason": "test", "at": WHEN} | fields))


def put_on_server(root: Path, url: str) -> None:
    """Let `root` mean a store on a server, its databases made as `lessons init` makes them."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "server.url").write_text(url)
    store = located(root)
    assert not hasattr(store, "paths")
    store.make_layout()
    store.make_databases()


def server_url(root: Path) -> str:
    """Return the address of a store on a server, "" for a folder."""
    note = root / "server.url"
    return note.read_text() if note.exists() else ""


def located(root: Path) -> Located:
    """Return the store as the gate sees it."""
    url = server_url(root)
    return locate(url, root / "state") if url else locate(str(root), None)


def flags(root: Path) -> list[str]:
    """Return the command line options that name the store."""
    if url := server_url(root):
        return ["--store", url, "--state-dir", str(root / "state")]
    return ["--store", str(root)]


@contextmanager
def raw_client(root: Path, database: str) -> Iterator[Any]:
    """Open one database behind the gate's back."""
    paths = StorePaths(root)
    if url := server_url(root):
        client: Any = open_server(parse_server(url), database)
    elif database == "staging":
        with staging_session(paths) as client:
            yield client
        return
    else:
        client = open_embedded(paths.gate)
    with closing(client):
        yield client


def shown(root: Path, domain: str = "sql") -> PublishedSet:
    """Return what recall reads of a domain."""
    if url := server_url(root):
        with closing(CuratedServer(parse_server(url))) as shelf:
            found = shelf.fetch(domain, None).lessons
    else:
        found = read_published(StorePaths(root).published(domain))
    assert found is not None
    return found


def stage(root: Path | StorePaths, candidates: Sequence[Candidate]) -> None:
    """Put candidates into staging the way the plugin does."""
    if server_url(folder := root.root if isinstance(root, StorePaths) else root):
        _add(folder, "candidates", [(c.lesson.domain, c.to_record()) for c in candidates])
        return
    spool = Spool(StorePaths(folder))
    spool.append_candidates(candidates)
    spool.drain()


def unstage(root: Path, ids: Sequence[str]) -> None:
    """Take candidates out of staging, as whoever may write there can."""
    with raw_client(root, "staging") as client:
        name = collection_names("sql")["candidates"]
        client.get_collection(name, embedding_function=None).delete(ids=list(ids))


def stage_usage(root: Path | StorePaths, domain: str, usages: Sequence[Usage]) -> None:
    """Put usage events into staging the way the plugin does."""
    if server_url(folder := root.root if isinstance(root, StorePaths) else root):
        _add(folder, "events", [(domain, usage.to_record()) for usage in usages])
        return
    spool = Spool(StorePaths(folder))
    for usage in usages:
        spool.append_usage(domain, usage)
    spool.drain()


def stage_events(root: Path, events: Sequence[Any], domain: str = "sql") -> None:
    """Put events of any type, or their rows, into staging the way the plugin does."""
    found = [event if isinstance(event, Record) else event.to_record() for event in events]
    rows = list({record.id: record for record in found}.values())
    if not rows:
        return
    if server_url(root):
        _add(root, "events", [(domain, record) for record in rows])
        return
    with staging_session(StorePaths(root)) as client:
        append_records(client, collection_names(domain)["events"], rows)


def _add(root: Path, kind: str, rows: Sequence[tuple[str, Record]]) -> None:
    with raw_client(root, "staging") as client:
        for domain in dict.fromkeys(domain for domain, _ in rows):
            collection = client.get_or_create_collection(
                collection_names(domain)[kind],
                configuration={"hnsw": {"space": "cosine"}},
                embedding_function=None,
            )
            found = {record.id: record for of, record in rows if of == domain}
            collection.add(
                ids=[*found],
                documents=[record.document for record in found.values()],
                metadatas=[dict(record.metadata) for record in found.values()],
                embeddings=[STAGING_VECTOR] * len(found),
            )


def settings(root: Path, embedder: Any = None, **fields: Any) -> GateSettings:
    """Return settings for a store and domain `sql`."""
    chosen = HashEmbedder() if embedder is None else embedder
    url = server_url(root)
    place = {"store": url, "state": root / "state"} if url else {"store": str(root)}
    return GateSettings(**({"domain": "sql", "embedder": chosen} | place | fields))


def bare(root: Path) -> GateSettings:
    """Return settings without an embedder."""
    return replace(settings(root), embedder=None)


def gate(root: Path, embedder: Any = None, **fields: Any) -> AbstractContextManager[GateSession]:
    """Open a gate on a store folder with the test embedder."""
    return open_gate(settings(root, embedder, **fields))


def promotion(session: GateSession, found: Candidate) -> Change:
    """Return the change that promotes one candidate."""
    row = curated(found.lesson, occurrences=1, distinct_users=1)
    return Change(
        action=Action.PROMOTE,
        key=row.key,
        reason="seen to work",
        actor=HUMAN,
        payload={"candidate": found.model_dump(mode="json")},
        put=(row,),
        vectors=session.embed([row.lesson.embedded_text]),
        staged=(found.id,),
    )


def retirement(session: GateSession, key: str, status: Status = Status.STALE) -> Change:
    """Return the change that takes one lesson out of use."""
    row = session.curated[key]
    return Change(
        action=Action.RETIRE,
        key=key,
        reason="no longer true",
        actor=HUMAN,
        payload={"curated": row.model_dump(mode="json")},
        remove=(key,),
        archive=(archived(row.lesson, status, curated=row),),
    )
