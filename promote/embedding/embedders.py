"""Embedders outside Open WebUI: an OpenAI-compatible endpoint, or a model in this program.

    LESSONS_EMBEDDING=openai:MODEL@URL
    LESSONS_EMBEDDING=minilm:               all-MiniLM-L6-v2 of a package, without torch
    LESSONS_EMBEDDING=sentence-transformers:NAME_OR_FOLDER

The key of an endpoint: LESSONS_EMBEDDING_KEY, else OPENAI_API_KEY.
Prefixes of asymmetric models: LESSONS_EMBEDDING_QUERY_PREFIX, LESSONS_EMBEDDING_DOCUMENT_PREFIX.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lessons_loop.filter.address import has_version, public_url
from lessons_loop.filter.embed import Embedder, Purpose, Vectors, unit_rows
from lessons_loop.filter.endpoint import JsonEndpoint
from lessons_loop.filter.errors import EmbedError
from lessons_loop.filter.store import first_line
from lessons_loop.promote.embedding.embedded_text import prefixed
from lessons_loop.promote.embedding.forms import FORMS, SETTING, USUAL
from lessons_loop.promote.embedding.minilm import MiniLM

EMBED_BATCH = 64
BODY_LIMIT = 100_000_000
"""Bytes: 64 vectors of 4,096 numbers as JSON are about 6 MB."""


def parse_embedding(setting: str, environ: Mapping[str, str]) -> Embedder | None:
    """Return the embedder a setting names, None for an empty one; raise EmbedError."""
    value = setting.strip()
    if not value:
        return None
    kind, _, rest = value.partition(":")
    prefixes = (
        environ.get("LESSONS_EMBEDDING_QUERY_PREFIX", ""),
        environ.get("LESSONS_EMBEDDING_DOCUMENT_PREFIX", ""),
    )
    if kind == "sentence-transformers" and rest.strip():
        return SentenceTransformers(rest.strip(), prefixes)
    if value == "minilm:":
        return MiniLM(prefixes)
    if kind == "openai" and (found := re.fullmatch(r"(.+?)@(https?://\S+)", rest.strip())):
        own, general = environ.get("LESSONS_EMBEDDING_KEY"), environ.get("OPENAI_API_KEY")
        return OpenAIEmbeddings(found[1], found[2], (own or general or "").strip(), prefixes)
    raise EmbedError(f"{SETTING} must be {FORMS}, got {public_url(value)[:80]!r}")


class OpenAIEmbeddings:
    """A model behind an OpenAI-compatible URL, with or without `/v1`."""

    def __init__(
        self,
        model: str,
        url: str,
        key: str = "",
        prefixes: tuple[str, str] = ("", ""),
        seconds: float = 60.0,
    ) -> None:
        self.name = f"openai:{model}"
        self.prefixes = prefixes
        self._model = model
        address = embeddings_url(url)
        name = f"the embedding endpoint {public_url(address)}"
        self._web = JsonEndpoint(address, key, name, EmbedError, seconds=seconds, limit=BODY_LIMIT)

    def __repr__(self) -> str:
        """Name the model; key and address credentials stay out."""
        return f"OpenAIEmbeddings({self._model!r})"

    def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        """Return unit rows, shape (len(texts), dimension); raise EmbedError."""
        sent = prefixed(texts, purpose, self.prefixes)
        batches = [sent[start : start + EMBED_BATCH] for start in range(0, len(sent), EMBED_BATCH)]
        if not batches:
            return np.empty((0, 0), dtype=np.float32)
        rows = [self._batch(batch) for batch in batches]
        if len({part.shape[1] for part in rows}) > 1:
            raise EmbedError(f"{self.name} returned vectors of different lengths")
        return np.concatenate(rows)

    def _batch(self, texts: list[str]) -> Vectors:
        payload = {"model": self._model, "input": texts, "encoding_format": "float"}

        def work(deadline: float) -> object:
            post = self._web.post
            return self._web.accepted(
                self._web.patiently(lambda: post(payload, deadline), deadline)
            )

        body = self._web.in_time(work)
        return unit_rows(_rows_of(body, self.name), len(texts))


def embeddings_url(url: str) -> str:
    """Return the embeddings address for a base address."""
    base = url.strip().rstrip("/")
    if base.endswith("/embeddings"):
        return base
    return f"{base}/embeddings" if has_version(base) else f"{base}/v1/embeddings"


def _rows_of(body: object, name: str) -> list[Any]:
    if body is None:
        raise EmbedError(f"{name} answered something that is no JSON")
    found = body.get("data") if isinstance(body, dict) else None
    try:
        ordered = sorted(found or (), key=lambda row: int(row["index"]))
        return [row["embedding"] for row in ordered]
    except (TypeError, KeyError, ValueError):
        raise EmbedError(f"{name} answered without readable embeddings") from None


class SentenceTransformers:
    """A local model, loaded at first use (seconds, hundreds of megabytes)."""

    def __init__(self, name_or_folder: str, prefixes: tuple[str, str] = ("", "")) -> None:
        path = Path(name_or_folder).expanduser()
        self._source = str(path) if path.is_dir() else name_or_folder
        self.name = f"sentence-transformers:{path.name}"
        self.prefixes = prefixes
        self._model: Any = None

    def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        """Return unit rows, shape (len(texts), dimension); raise EmbedError."""
        model = self._loaded()
        sent = prefixed(texts, purpose, self.prefixes)
        try:
            rows = model.encode(sent, show_progress_bar=False, convert_to_numpy=True)
        except Exception as error:  # whatever torch raises
            raise EmbedError(f"{self.name} failed: {first_line(error)}") from None
        return unit_rows(rows, len(sent))

    def _loaded(self) -> Any:
        if self._model is None:
            try:
                from sentence_transformers import SentenceTransformer
            except ImportError:
                raise EmbedError(
                    f"{self.name} needs sentence-transformers: "
                    f"pip install sentence-transformers, or set {SETTING} to {USUAL}"
                ) from None
            logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
            try:
                self._model = SentenceTransformer(self._source, device="cpu")
            except Exception as error:  # a missing folder asks a hub, which may raise anything
                raise EmbedError(f"{self.name} cannot be loaded: {first_line(error)}") from None
        return self._model
