"""A store to spoil, every byte of it, and a change of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from support.gate import candidate, gate, promotion, raw_client, server_url, stage
from support.templates import copied


def filled(root: Path) -> Path:
    """Make a store with one curated lesson and one candidate."""
    copied(fill, root)
    return root


def fill(root: Path) -> None:
    """Make it anew: a copy's header names where the first one stood."""
    with gate(root) as session:
        session.apply(promotion(session, candidate("Bound every read.", message="m0")))
    stage(root, [candidate()])


def tree(root: Path) -> dict[str, Any]:
    """Return every byte of a store: its files, on a server its rows and headers too."""
    files: dict[str, Any] = {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        if path.is_file()
        else ""
        for path in root.rglob("*")
    }
    if server_url(root):
        for database in ("curated", "staging", "gate"):
            files |= {f"{database}/{name}": rows for name, rows in _rows(root, database).items()}
    return files


def _rows(root: Path, database: str) -> dict[str, str]:
    wanted = ["embeddings", "metadatas", "documents"]
    found = {}
    with raw_client(root, database) as client:
        for one in client.list_collections():
            rows = one.get(include=wanted)
            content = [str(one.id), one.metadata, *(rows[name] for name in ("ids", *wanted[1:]))]
            vectors = np.asarray(rows["embeddings"]).tolist()
            found[one.name] = json.dumps([*content, vectors], sort_keys=True)
    return found


def change_of(root: Path) -> None:
    """Promote what is staged."""
    with gate(root) as session:
        for found in session.candidates():
            session.apply(promotion(session, found))
