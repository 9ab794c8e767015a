"""The embedding model where none is named: MiniLM from a PyPI package, no network needed."""

from __future__ import annotations

import os
from importlib.util import find_spec

from lessons_loop.filter.embed import Embedder
from lessons_loop.filter.errors import EmbedError
from lessons_loop.promote.embedding.embedders import parse_embedding
from lessons_loop.promote.embedding.forms import SETTING
from lessons_loop.promote.embedding.minilm_files import PACKAGE, packaged_model


def evaluation_embedder(setting: str) -> Embedder:
    """Return the embedder of a setting, the packaged model for an empty one; raise EmbedError."""
    if found := parse_embedding(setting, os.environ):
        return found
    folder = packaged_model()
    with_torch = find_spec("sentence_transformers") is not None  # 2.6 times as fast on batches
    name = f"sentence-transformers:{folder}" if with_torch else "minilm:"
    found = parse_embedding(name, os.environ) if folder else None
    if found is None:
        raise EmbedError(
            f"no embedding given: pass --embedding, set {SETTING} or install {PACKAGE}"
        )
    return found
