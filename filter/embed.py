"""Embeddings: the narrow interface, unit vectors, and the fingerprint of a model.

Two models are the same when they agree, whatever they are called: the
fingerprint is the dimension, the prefixes and the mutual cosines of eight
fixed sentences, equal within 0.002.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from lessons_loop.filter.errors import EmbedError

Vectors = npt.NDArray[np.float32]
FINGERPRINT_TOLERANCE = 0.002
FINGERPRINT_SENTENCES = (
    "The invoice is due at the end of the month.",
    "Restart the service after changing its configuration file.",
    "SELECT count(*) FROM orders WHERE created_at >= '2024-01-01'",
    "Die Maschine steht seit gestern still.",
    "Photosynthesis turns light into chemical energy.",
    "HTTP 429: too many requests, retry after 30 seconds",
    "My grandmother bakes bread with rye and caraway.",
    "La réunion est reportée à jeudi matin.",
)


class Purpose(StrEnum):
    """Which side of a comparison a text stands on; asymmetric models prefix by it."""

    QUERY = "query"
    DOCUMENT = "document"


class Embedder(Protocol):
    """Anything that turns texts into unit vectors, outside the server."""

    @property
    def name(self) -> str:
        """What to call the model in a message; carries no secret."""

    @property
    def prefixes(self) -> tuple[str, str]:
        """The query prefix and the document prefix."""

    def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        """Return unit rows, shape (len(texts), dimension); raise EmbedError."""


class Fingerprint(BaseModel):
    """Identity of an embedding model by what it does."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = ""
    """For messages only; not compared."""
    dimension: int
    query_prefix: str = ""
    document_prefix: str = ""
    cosines: tuple[float, ...]
    """Upper triangle of the mutual cosines, row by row: 28 values."""

    def matches(self, other: Fingerprint) -> bool:
        """Say whether vectors of the two may be compared."""
        same = (self.dimension, self.query_prefix, self.document_prefix, len(self.cosines)) == (
            other.dimension,
            other.query_prefix,
            other.document_prefix,
            len(other.cosines),
        )
        return same and all(
            abs(a - b) <= FINGERPRINT_TOLERANCE
            for a, b in zip(self.cosines, other.cosines, strict=True)
        )


def unit_rows(rows: object, count: int) -> Vectors:
    """Return float32 unit rows; raise EmbedError unless `count` finite, non-zero ones came."""
    try:
        matrix = np.asarray(rows, dtype=np.float32)
    except (TypeError, ValueError):
        raise EmbedError("the embedding engine returned something that is no vector") from None
    if matrix.ndim != 2 or matrix.shape[0] != count or matrix.shape[1] == 0:
        raise EmbedError(f"the embedding engine returned shape {matrix.shape} for {count} texts")
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    if not np.isfinite(norms).all() or (norms == 0).any():
        raise EmbedError("the embedding engine returned a zero or non-finite vector")
    unit: Vectors = matrix / norms
    return unit


def fingerprint_of(vectors: Vectors, prefixes: tuple[str, str], name: str) -> Fingerprint:
    """Return the fingerprint from the eight sentences' unit vectors (as documents)."""
    products = vectors @ vectors.T
    upper = products[np.triu_indices(len(vectors), k=1)]
    return Fingerprint(
        name=name,
        dimension=int(vectors.shape[1]),
        query_prefix=prefixes[0],
        document_prefix=prefixes[1],
        cosines=tuple(round(float(value), 5) for value in upper),
    )


def fingerprint(embedder: Embedder) -> Fingerprint:
    """Embed the eight sentences and return the fingerprint; raise EmbedError."""
    vectors = embedder.embed(FINGERPRINT_SENTENCES, Purpose.DOCUMENT)
    return fingerprint_of(vectors, embedder.prefixes, embedder.name)
