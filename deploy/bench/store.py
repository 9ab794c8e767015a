"""Made-up lessons, published, and a filter on them whose embedding costs nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from lessons_loop.filter.embed import FINGERPRINT_SENTENCES, Fingerprint, Purpose, Vectors
from lessons_loop.filter.embed import fingerprint as fingerprint_by
from lessons_loop.filter.kinds import Kind
from lessons_loop.filter.lessons_filter import Filter
from lessons_loop.filter.models import Curated, Lesson
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.store.publish import Edition, publish

DIMENSION = 384
_WORDS = (
    "machine serial telemetry hours orders customer region month invoice index partition limit"
    " join cache token retry certificate pod volume replica schema column unit window backup"
)
WORDS = _WORDS.split()
QUESTION = "operating hours of the machine with serial 4711 over the last month?"


class RandomEmbedder:
    """Random unit vectors, the same for the same text: no model, so that only our cost shows."""

    name = "random"
    prefixes = ("", "")

    def embed(self, texts: Any, purpose: Purpose) -> Vectors:
        """Return unit rows, shape (len(texts), DIMENSION)."""
        rows = [np.random.default_rng(abs(hash(t)) % 2**32).normal(size=DIMENSION) for t in texts]
        matrix = np.array(rows, np.float32)
        unit: Vectors = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
        return unit


def made_up_lessons(count: int) -> list[Curated]:
    """Return lessons of about 200 characters, all different, made from a seed."""
    random = np.random.default_rng(7)
    kinds = list(Kind)
    lessons = []
    for number in range(count):
        words = " ".join(random.choice(WORDS, 24))
        lesson = Lesson(
            domain="bench",
            text=f"Use rule {number}: {words}.",
            kind=kinds[number % len(kinds)],
            trigger=f"case {number} of {' '.join(random.choice(WORDS, 4))}",
            tags=(str(random.choice(WORDS)),),
        )
        lessons.append(Curated(lesson=lesson, since="2026-11-01T00:00:00Z"))
    return lessons


def made_up_vectors(count: int) -> Vectors:
    """Return random unit rows, always the same ones."""
    vectors = np.random.default_rng(7).normal(size=(count, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def publish_made_up(root: Path, count: int) -> Path:
    """Publish `count` lessons with random vectors; return the file."""
    vectors = made_up_vectors(count)
    embedder = RandomEmbedder()
    mark: Fingerprint = fingerprint_by(embedder)
    path = StorePaths(root).published("bench")
    publish(path, Edition("bench", 1, made_up_lessons(count), vectors, mark), embedder)
    return path


def bench_filter(root: Path, **valves: object) -> tuple[Filter, Any]:
    """Return a filter on the store and the request its hooks get; embedding costs nothing."""
    embedder = RandomEmbedder()
    ready = {text: embedder.embed([text], Purpose.QUERY)[0] for text in FINGERPRINT_SENTENCES}

    async def embedding_function(query: list[str], prefix: object = None) -> Vectors:
        known = [ready.get(text) for text in query]
        for place, text in enumerate(query):
            if known[place] is None:
                known[place] = ready[text] = embedder.embed([text], Purpose.QUERY)[0]
        return np.array(known)

    state = SimpleNamespace(EMBEDDING_FUNCTION=embedding_function, MODELS={})
    plugin = Filter()
    settings: dict[str, Any] = {"store": str(root), "domains": "bench", "min_similarity": "0.05"}
    plugin.valves = Filter.Valves(**(settings | valves))
    return plugin, SimpleNamespace(app=SimpleNamespace(state=state))
