"""Read a staging folder in a process that may die of it; run by `repair`, never by hand.

check FOLDER        exit 0 when every collection reads, queries and takes a row (staging)
dump FOLDER FILE    write every collection, then its rows as JSON lines; works on a copy
                    without index files
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.errors import StoreDamaged
from lessons_loop.filter.store import STAGING_VECTOR, open_embedded
from lessons_loop.promote.store.child import child_main
from lessons_loop.promote.store.rows import read_rows, read_vectors

PROBE = "repair-probe"


def read(folder: Path) -> None:
    """Read every row and vector; raise whatever is wrong."""
    client = open_embedded(folder)
    try:
        for collection in client.list_collections():
            _read_collection(collection)
    finally:
        client.close()  # type: ignore[attr-defined]


def _read_collection(collection: Any) -> list[Vectors]:
    ids = {id_ for page in read_rows(collection) for id_ in page.ids}
    if len(ids) != collection.count():
        raise ValueError(f"{collection.name} counts {collection.count()} rows, has {len(ids)}")
    try:
        return list(read_vectors(collection, sorted(ids)).values())
    except StoreDamaged:
        raise ValueError(f"{collection.name} has lost its index") from None


def check(folder: Path) -> None:
    """Read, query and write every collection; raise whatever is wrong."""
    client = open_embedded(folder)
    try:
        for collection in client.list_collections():
            _check_collection(collection)
    finally:
        client.close()  # type: ignore[attr-defined]


def _check_collection(collection: Any) -> None:
    """Compare text, vectors and search: a torn index may answer one and not the others."""
    if any(vector.tolist() != STAGING_VECTOR for vector in _read_collection(collection)):
        raise ValueError(f"{collection.name} holds vectors nobody wrote")
    collection.query(query_embeddings=[STAGING_VECTOR], n_results=1, include=["distances"])
    collection.upsert(
        ids=[PROBE], documents=[PROBE], metadatas=[{"probe": 1}], embeddings=[STAGING_VECTOR]
    )
    collection.delete(ids=[PROBE])


def dump(folder: Path, target: Path) -> None:
    """Write the rows of a copy whose index files are gone: text and metadata need none."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="staging.copy-") as scratch:
        copy = Path(scratch) / "staging"
        shutil.copytree(folder, copy)
        for entry in copy.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
        client = open_embedded(copy)
        with target.open("w", encoding="utf-8") as file:
            for collection in client.list_collections():
                file.write(json.dumps([collection.name, collection.metadata]) + "\n")
                file.writelines(
                    json.dumps([collection.name, *row]) + "\n"
                    for page in read_rows(collection)
                    for row in zip(*page, strict=True)
                    if row[0] != PROBE
                )
        client.close()  # type: ignore[attr-defined]


if __name__ == "__main__":
    sys.exit(child_main({"read": read, "check": check, "dump": dump}, sys.argv[1:]))
