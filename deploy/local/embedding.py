"""Whether the user chose an embedding engine for Open WebUI himself."""

from __future__ import annotations

from collections.abc import Mapping


def user_configured(environ: Mapping[str, str]) -> bool:
    """Tell whether the user chose an embedding engine for Open WebUI himself."""
    names = ("RAG_EMBEDDING_ENGINE", "RAG_EMBEDDING_MODEL")
    return any(environ.get(name, "").strip() for name in names)
