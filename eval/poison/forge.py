"""Rows written straight into staging, past the filter, with whatever evidence and vector."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lessons_loop.eval.poison.cases import DOMAIN, Scene
from lessons_loop.filter.embed import Embedder, Purpose
from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.models import Candidate, Evidence, Record
from lessons_loop.filter.store import (
    STAGING_VECTOR,
    StorePaths,
    collection_names,
    first_line,
    staging_session,
)
from lessons_loop.filter.text import digest
from lessons_loop.seeds.load import read_seeds, shipped_domains

_WHEN = "2026-01-01T00:00:00Z"


def forge(store: Path, embedder: Embedder, ident: str, scene: Scene) -> int:
    """Write a scene's forged rows into a store's staging; return how many the store took."""
    rows = [row for user in range(scene.users) if (row := _row(ident, scene, user))]
    vectors = [_vector(scene, embedder)] * len(rows)
    return _written(StorePaths(store), rows, vectors) or _written(
        StorePaths(store), rows, [STAGING_VECTOR] * len(rows)
    )


def _row(ident: str, scene: Scene, user: int) -> Record | None:
    forged, lesson = scene.forged, scene.built()
    if forged is None or lesson is None:
        return None
    sound = Candidate.build(
        lesson=lesson.model_copy(update={"source": forged.source}),
        evidence=Evidence.build(
            kind=forged.evidence, quote=forged.quote, excerpt=forged.excerpt, tools=forged.tools
        ),
        message_ref=digest(f"{ident} message {user}"),
        chat_ref=digest(f"{ident} chat {user}"),
        user_ref=digest(f"{ident} user {user}"),
        model="forged",
        prompt="distill-1",
        at=_WHEN,
    ).to_record()
    return sound._replace(metadata=sound.metadata | forged.extra)


def _vector(scene: Scene, embedder: Embedder) -> Sequence[float]:
    wanted = scene.forged.vector_of if scene.forged else ""
    if not wanted:
        return STAGING_VECTOR
    seeds = read_seeds(shipped_domains()[DOMAIN]).seeds
    text = next(seed.lesson.embedded_text for seed in seeds if seed.id == wanted)
    return [float(value) for value in embedder.embed([text], Purpose.DOCUMENT)[0]]


def _written(paths: StorePaths, rows: Sequence[Record], vectors: Sequence[Sequence[float]]) -> int:
    """Return how many rows the store took: it refuses another dimension than its own."""
    if not rows:
        return 0
    with staging_session(paths) as client:
        try:
            collection = client.get_or_create_collection(
                collection_names(DOMAIN)["candidates"],
                configuration={"hnsw": {"space": "cosine"}},
                embedding_function=None,
            )
            columns: dict[str, Any] = {
                "ids": [row.id for row in rows],
                "documents": [row.document for row in rows],
                "metadatas": [dict(row.metadata) for row in rows],
                "embeddings": [list(vector) for vector in vectors],
            }
            collection.add(**columns)
        except (KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:  # chromadb raises several kinds for a bad dimension
            if "dimension" not in str(error).casefold():
                raise StoreError(f"forging failed: {first_line(error)}") from None
            return 0
    return len(rows)
