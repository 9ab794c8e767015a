"""An embedder for runs that gate the same texts several times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lessons_loop.filter.embed import Embedder, Purpose, Vectors


class Remembering:
    """An embedder that embeds each text once: the same pack is gated several times."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self._known: dict[tuple[str, Purpose], Vectors] = {}

    @property
    def name(self) -> str:
        """The model's name."""
        return self.embedder.name

    @property
    def prefixes(self) -> tuple[str, str]:
        """The model's prefixes."""
        return self.embedder.prefixes

    def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        """Return unit rows; raise EmbedError."""
        missing = [text for text in dict.fromkeys(texts) if (text, purpose) not in self._known]
        if missing:
            rows = self.embedder.embed(missing, purpose)
            self._known.update(zip(((t, purpose) for t in missing), rows, strict=True))
        return np.stack([self._known[text, purpose] for text in texts])
