"""Embed a text once per run, as a document: what is compared with stored text is stored text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lessons_loop.filter.embed import Embedder, Purpose, Vectors, unit_rows
from lessons_loop.filter.errors import EmbedError
from lessons_loop.promote.embedding.forms import NO_EMBEDDER


class EmbedOnce:
    """An embedder that remembers; without one it only says what to set."""

    def __init__(self, embedder: Embedder | None) -> None:
        self.embedder = embedder
        self._known: dict[str, Vectors] = {}

    def rows(self, texts: Sequence[str]) -> Vectors:
        """Return unit rows of the texts; raise EmbedError."""
        if self.embedder is None:
            raise EmbedError(NO_EMBEDDER)
        if missing := [text for text in dict.fromkeys(texts) if text not in self._known]:
            found = unit_rows(self.embedder.embed(missing, Purpose.DOCUMENT), len(missing))
            self._known.update(zip(missing, found, strict=True))
        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        return np.stack([self._known[text] for text in texts])

    def remember(self, text: str, row: Vectors) -> None:
        """Take a text's unit row over from a snapshot of the same model."""
        self._known.setdefault(text, row)

    def known(self, text: str) -> Vectors | None:
        """Return a text's vector when this run asked for it before."""
        return self._known.get(text)
