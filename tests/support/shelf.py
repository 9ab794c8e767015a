"""Test tools for recall: lessons published as the gate publishes them, an app that embeds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from lessons_loop.filter.embed import Purpose, fingerprint
from lessons_loop.filter.models import Curated, Lesson
from lessons_loop.filter.published import PublishedSet, read_published
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.store.publish import Edition, publish
from support.gate import HashEmbedder

SERIALS = "Look serials up in equipment_machine by serial_key."
TELEMETRY = "Bound telemetry_hours by day before you sum hours."
CERTS = "Rotate the ingress certificate with cert-manager, never by hand."


def shelved(
    text: str = SERIALS, trigger: str = "questions about one machine", **fields: Any
) -> Curated:
    """Return a curated lesson."""
    base: dict[str, Any] = {"domain": "sql", "kind": "resolution-pattern", "status": "curated"}
    return Curated(lesson=Lesson(text=text, trigger=trigger, **(base | fields)), since="2026-11-01")


def shelf(*more: Curated) -> tuple[Curated, ...]:
    """Return three lessons on three subjects, and `more`."""
    return (
        shelved(SERIALS, "operating hours of a machine given its serial"),
        shelved(TELEMETRY, "sums over telemetry hours"),
        shelved(CERTS, "expiring certificate of the ingress", kind="fail-fix"),
        *more,
    )


def put_published(
    paths: StorePaths, lessons: Sequence[Curated], embedder: HashEmbedder | None, rev: int = 1
) -> PublishedSet:
    """Publish the lessons of one domain as the gate does and read the file back."""
    domain = lessons[0].lesson.domain if lessons else "sql"
    dimension = embedder.dimension if embedder else 0
    vectors = np.zeros((len(lessons), dimension), np.float32)
    if embedder and lessons:
        vectors = embedder.embed([c.lesson.embedded_text for c in lessons], Purpose.DOCUMENT)
    mark = fingerprint(embedder) if embedder else None
    path = paths.published(domain)
    publish(path, Edition(domain, rev, lessons, vectors, mark), embedder)
    found = read_published(Path(path))
    assert found is not None
    return found


def app_with(embedder: HashEmbedder, delay: float = 0.0, error: Exception | None = None) -> Any:
    """Return what a filter sees of a server: an app whose state embeds as Open WebUI's does."""

    async def embedding_function(query: Any, prefix: str | None = None, user: Any = None) -> Any:
        app.calls.append(query)
        await asyncio.sleep(app.delay)
        if app.error:
            raise app.error
        texts = query if isinstance(query, list) else [query]
        rows = embedder.embed([(prefix or "") + text for text in texts], Purpose.DOCUMENT)
        return rows.tolist() if isinstance(query, list) else rows[0].tolist()

    state = SimpleNamespace(EMBEDDING_FUNCTION=embedding_function, MODELS={})
    app = SimpleNamespace(state=state, calls=[], delay=delay, error=error)
    return app
