"""Copy a Chroma folder row by row, each half in a process of its own; run by `compact`.

dump FOLDER FILE    every collection with its rows and vectors as JSON lines
fill FOLDER FILE    a new folder from them; this process has never seen anything else
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lessons_loop.filter.models import Record
from lessons_loop.filter.store import open_embedded
from lessons_loop.promote.store.child import child_main
from lessons_loop.promote.store.rows import Row, create_cosine, get_page, pack, space_of, write_rows
from lessons_loop.promote.store.staging_made import is_staging, make_staging

PAGE_ROWS = 500


def dump(folder: Path, target: Path) -> None:
    """Write all there is, sorted by collection; raise whatever is wrong."""
    client = open_embedded(folder)
    try:
        with target.open("w", encoding="utf-8") as file:
            for collection in sorted(client.list_collections(), key=lambda one: one.name):
                file.write(_line(_head(collection)))
                file.writelines(_line(row.model_dump()) for row in _rows(collection))
    finally:
        client.close()  # type: ignore[attr-defined]


def _head(collection: Any) -> dict[str, Any]:
    """Return what the copy shall be: of staging one shape, whoever made the original."""
    space = "cosine" if is_staging(collection.name) else space_of(collection)
    return {"name": collection.name, "metadata": collection.metadata, "space": space}


def _line(content: dict[str, Any]) -> str:
    return json.dumps(content, sort_keys=True) + "\n"  # Chroma keeps no order of names


def _rows(collection: Any) -> list[Row]:
    found: list[Row] = []
    include = ("documents", "metadatas", "embeddings")
    while True:
        page = get_page(collection, include, limit=PAGE_ROWS, offset=len(found))
        if not page["ids"]:
            return sorted(found, key=lambda row: row.id)
        for id_, document, metadata, vector in zip(
            page["ids"], page["documents"], page["metadatas"], page["embeddings"], strict=True
        ):
            found.append(Row.of(Record(id_, document or "", dict(metadata or {})), pack(vector)))


def fill(folder: Path, source: Path) -> None:
    """Make the folder; raise whatever is wrong."""
    client = open_embedded(folder)
    try:
        collection: Any = None
        rows: list[Row] = []
        with source.open(encoding="utf-8") as lines:
            for line in lines:
                found = json.loads(line)
                if "space" not in found:
                    rows.append(Row.model_validate(found))
                    continue
                _store(collection, rows)
                collection, rows = _made(client, found), []
        _store(collection, rows)
    finally:
        client.close()  # type: ignore[attr-defined]


def _made(client: Any, head: dict[str, Any]) -> Any:
    name, metadata = head["name"], head["metadata"]
    if is_staging(name):
        return make_staging(client, name, metadata)
    return create_cosine(client, name, metadata, head["space"])


def _store(collection: Any, rows: Sequence[Row]) -> None:
    if rows:
        write_rows(collection, rows, {})


if __name__ == "__main__":
    sys.exit(child_main({"dump": dump, "fill": fill}, sys.argv[1:]))
