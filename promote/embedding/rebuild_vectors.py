"""Vectors on their way from one model to the next, kept so that a killed run loses none.

    state/reembed/<domain>.jsonl   line one the model's fingerprint, then one vector a line

A vector stands under the sha256 of the very text it was made from: a lesson that changed
since is embedded again, one that did not is not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from lessons_loop.filter.embed import Embedder, Fingerprint, Purpose, Vectors, unit_rows
from lessons_loop.filter.text import digest
from lessons_loop.promote.files import file_errors, private_folder, sync_folder
from lessons_loop.promote.store.rows import pack, unpack

BATCH = 64
Report = Callable[[str, int, int], None]
"""Told what is under way, how much of it is done, and of how much."""


class VectorFile:
    """The vectors one re-embedding has so far."""

    def __init__(self, state: Path, domain: str, model: Fingerprint) -> None:
        self.path = state / "reembed" / f"{domain}.jsonl"
        self.model = model
        self.found: dict[str, Vectors] = self._read()

    def missing(self, texts: Sequence[str]) -> list[str]:
        """Return the texts without a vector, each once."""
        return [text for text in dict.fromkeys(texts) if digest(text) not in self.found]

    def rows(self, texts: Sequence[str]) -> Vectors:
        """Return the unit rows of texts that all have one."""
        if not texts:
            return np.empty((0, self.model.dimension), dtype=np.float32)
        return np.stack([self.found[digest(text)] for text in texts])

    def fill(self, embedder: Embedder, texts: Sequence[str], report: Report) -> None:
        """Embed what is missing, each batch on disk before the next; EmbedError, StoreError."""
        todo = self.missing(texts)
        total, done = len(set(texts)), len(set(texts)) - len(todo)
        report("embedding", done, total)
        for start in range(0, len(todo), BATCH):
            batch = todo[start : start + BATCH]
            rows = unit_rows(embedder.embed(batch, Purpose.DOCUMENT), len(batch))
            self._append(batch, rows)
            done += len(batch)
            report("embedding", done, total)

    def drop(self) -> None:
        """Remove the file: its vectors are in the store."""
        with file_errors(self.path):
            self.path.unlink(missing_ok=True)

    def _append(self, texts: Sequence[str], rows: Vectors) -> None:
        if not self.found:
            self._begin()
        lines = [
            json.dumps([digest(text), pack(row)]) for text, row in zip(texts, rows, strict=True)
        ]
        with file_errors(self.path), self.path.open("ab") as file:
            file.write("".join(f"{line}\n" for line in lines).encode())
            file.flush()
            os.fsync(file.fileno())
        self.found.update(zip(map(digest, texts), rows, strict=True))

    def _begin(self) -> None:
        private_folder(self.path.parent)
        with file_errors(self.path), self.path.open("wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(self.model.model_dump_json().encode() + b"\n")
            sync_folder(self.path.parent)

    def _read(self) -> dict[str, Vectors]:
        """Return what an earlier run of the same model left; a torn last line is cut off."""
        if not self.path.exists():
            return {}
        with file_errors(self.path):
            content = self.path.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            if len(whole) < len(content):
                os.truncate(self.path, len(whole))
        lines = whole.splitlines()
        if not lines or not self._is_own(lines[0]):
            return {}
        return dict(self._vectors(lines[1:]))

    def _is_own(self, line: bytes) -> bool:
        try:
            return Fingerprint.model_validate_json(line).matches(self.model)
        except ValidationError:
            return False

    def _vectors(self, lines: Sequence[bytes]) -> Iterator[tuple[str, Vectors]]:
        for line in lines:
            try:
                name, packed = json.loads(line)
                vector = unpack(packed)
            except (ValueError, TypeError):  # of a disk gone bad: it is embedded again
                continue
            if vector.shape == (self.model.dimension,) and abs(np.linalg.norm(vector) - 1) < 0.01:
                yield str(name), vector
