"""A store as a release of schema 1 wrote it, and the plugin of that release.

`schema-1.json` was written by that release's code: two curated lessons, a held and a retired one,
a candidate and an event in staging, folded uses, a snapshot; `pending`: the same with a
retirement under way that a kill -9 ended. `lessons_filter-schema-1.py.gz` is the file
administrators pasted then.
"""

from __future__ import annotations

import base64
import gzip
import json
import sqlite3
import sys
import types
from contextlib import closing
from pathlib import Path
from typing import Any

from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.records import Action, Change
from lessons_loop.promote.session import GateSession
from lessons_loop.promote.store.rows import read_rows
from support.gate import HUMAN, located, raw_client, server_url

FOLDER = Path(__file__).parent.parent / "fixtures" / "older"
PROOF = json.dumps({"verdict": "helps", "questions": 3})
COSINE = {"hnsw": {"space": "cosine"}}
DATABASES = ("curated", "staging", "gate")


def put_older(root: Path, *, pending: bool = False) -> None:
    """Make `root` that store, a folder or on a server."""
    found = json.loads((FOLDER / "schema-1.json").read_text("utf-8"))
    store = located(root)
    store.make_layout()
    for name, content in {**found["files"], **(found["pending"] if pending else {})}.items():
        put_file(store.state / name, content.encode())
    for name, content in found["snapshots"].items():
        put_file(store.state / "snapshots" / "sql" / name, base64.b64decode(content))
    put_file((store.state if server_url(root) else root) / "salt", b"obviously-fake-salt")
    put_uses(store.state / "uses" / "sql.sqlite", found["uses"])
    gate, staging = found["collections"]["gate"], found["collections"]["staging"]
    if server_url(root):
        put_rows(root, "curated", {name: gate.pop(name) for name in ["sql-lessons"]})
    else:
        put_file(StorePaths(root).published("sql"), base64.b64decode(found["published"]))
    put_rows(root, "gate", gate)
    put_rows(root, "staging", staging)


def put_file(path: Path, content: bytes) -> None:
    """Write one file, its folder made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def put_uses(path: Path, rows: list[str]) -> None:
    """Write a use register as schema 1 had it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("create table uses (id text primary key, row text not null)")
        file.execute(
            "create table shown (key text not null, id text not null, primary key (key, id))"
            " without rowid"
        )
        for row in rows:
            use = json.loads(row)
            file.execute("insert into uses values (?, ?)", (use["id"], row))
            file.executemany(
                "insert into shown values (?, ?)", [(k, use["id"]) for k in use["keys"]]
            )


def put_rows(root: Path, database: str, collections: dict[str, Any]) -> None:
    """Make collections with their rows."""
    with raw_client(root, database) as client:
        for name, found in collections.items():
            made = client.create_collection(
                name, configuration=COSINE, metadata=found["metadata"], embedding_function=None
            )
            rows = found["rows"]
            made.add(
                ids=[row["id"] for row in rows],
                documents=[row["document"] for row in rows],
                metadatas=[row["metadata"] for row in rows],
                embeddings=[row["vector"] for row in rows],
            )


def collection_of(client: Any, name: str) -> Any:
    """Return a collection behind the gate's back."""
    return client.get_collection(name, embedding_function=None)


def set_metadata(root: Path, database: str, name: str, **fields: Any) -> None:
    """Change what a collection says about itself."""
    with raw_client(root, database) as client:
        collection = collection_of(client, name)
        collection.modify(metadata={**(collection.metadata or {}), **fields})


def contents(root: Path) -> dict[str, Any]:
    """Return all that is stored: rows and metadata of collections, files beside them."""
    found: dict[str, Any] = {}
    for database in DATABASES if server_url(root) else ("gate", "staging"):
        with raw_client(root, database) as client:
            for one in sorted(client.list_collections(), key=lambda one: str(one.name)):
                rows = {
                    id_: (document, metadata)
                    for page in read_rows(one)
                    for id_, document, metadata in zip(*page, strict=True)
                }
                found[f"{database}/{one.name}"] = (one.metadata, rows)
    return found | {"files": files(root)}


def files(root: Path) -> dict[str, bytes]:
    """Return the files of a store that are the gate's, Chroma's own left out."""
    left_out = ("gate.lock", "staging.lock")
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
        and path.name not in left_out
        and not {"gate", "staging"} & set(path.relative_to(root).parts)
    }


def measured(session: GateSession, key: str) -> Change:
    """Return the change that stores a proof on a lesson."""
    row = session.curated[key].model_copy(update={"proof": PROOF})
    return Change(Action.PROVE, key, "measured", HUMAN, {"proof": PROOF}, put=(row,))


def older_plugin() -> types.ModuleType:
    """Return the plugin of schema 1 as a module of its own, loaded once."""
    name = "older_plugin"
    if name not in sys.modules:
        source = gzip.decompress((FOLDER / "lessons_filter-schema-1.py.gz").read_bytes())
        module = types.ModuleType(name)
        sys.modules[name] = module
        exec(compile(source, name, "exec"), module.__dict__)
    return sys.modules[name]
