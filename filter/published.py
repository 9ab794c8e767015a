"""The published file: one domain's curated lessons as recall reads them.

One file, replaced by rename, so that a reader sees the old or the new one:

    line 1            PublishedHeader as JSON
    `count` lines     one curated lesson each: its payload and counters, as JSON
    padding           spaces, to a multiple of 64 bytes
    `count` * `dimension` float32, little endian, unit rows in the same order

`sha256` covers everything after line 1. A reader needs only read permission and
never opens Chroma.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from lessons_loop.filter.embed import Fingerprint, Vectors
from lessons_loop.filter.errors import StoreDamaged, StoreError
from lessons_loop.filter.models import Curated

PUBLISHED_FORMAT = "lessons-published/1"
PUBLISHED_ALIGN = 64


class PublishedHeader(BaseModel):
    """What line 1 says about the rest."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: str = PUBLISHED_FORMAT
    domain: str
    rev: int
    count: int
    dimension: int
    """0 where the lessons were published without an embedder: recall is lexical."""
    fingerprint: Fingerprint | None = None
    floor: float | None = None
    """Calibrated relevance floor on the scale of recall's joined score."""
    lexical_floor: float | None = None
    """The same for the lexical half alone."""
    mean: tuple[float, ...] = ()
    """Corpus mean to subtract, for embedders whose unrelated texts score high; may be empty."""
    lessons_bytes: int
    sha256: str


class PublishedSet(NamedTuple):
    """A published file in memory: lessons stay JSON lines, a fifth of the size of models."""

    header: PublishedHeader
    lines: tuple[bytes, ...]
    keys: tuple[str, ...]
    words: tuple[str, ...]
    """What each lesson is found by."""
    vectors: Vectors
    """Unit rows, shape (count, dimension), read-only."""

    @property
    def lessons(self) -> tuple[Curated, ...]:
        """Return the lessons themselves."""
        return tuple(Curated.model_validate_json(line) for line in self.lines)


def read_published(path: Path) -> PublishedSet | None:
    """Return the file's content, None when there is none; raise StoreError, StoreDamaged."""
    try:
        with path.open("rb") as file:
            head, body = file.readline(), file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from None
    try:
        header = PublishedHeader.model_validate_json(head)
    except ValidationError:
        raise StoreDamaged(f"{path} has no readable header: run `lessons publish`") from None
    return parse_published(path, header, body)


def parse_published(path: Path, header: PublishedHeader, body: bytes) -> PublishedSet:
    """Check the body against its header and return it in memory."""
    if header.format != PUBLISHED_FORMAT:
        raise StoreError(
            f"{path} has format {header.format}, this release reads {PUBLISHED_FORMAT}"
        )
    if hashlib.sha256(body).hexdigest() != header.sha256:
        raise StoreDamaged(f"{path} does not match its own hash: run `lessons publish`")
    lines = tuple(body[: header.lessons_bytes].splitlines())
    try:
        found = [key_and_words(line) for line in lines]
    except ValueError:
        raise StoreDamaged(f"{path} holds an unreadable lesson: run `lessons publish`") from None
    offset = header.lessons_bytes + -header.lessons_bytes % PUBLISHED_ALIGN
    try:
        flat = np.frombuffer(body, dtype="<f4", offset=offset) if header.dimension else np.empty(0)
    except ValueError:
        flat = np.empty(1)
    expected = (header.count, max(0, header.count) * max(0, header.dimension))
    if (len(lines), flat.size) != expected or len(header.mean) not in (0, header.dimension):
        raise StoreDamaged(f"{path} holds other counts than its header: run `lessons publish`")
    vectors = flat.reshape(header.count, header.dimension).astype(np.float32, copy=False)
    keys, words = tuple(key for key, _ in found), tuple(text for _, text in found)
    return PublishedSet(header, lines, keys, words, vectors)


def key_and_words(line: bytes) -> tuple[str, str]:
    """Return a lesson's key and the words it is found by; raise ValueError."""
    lesson = Curated.model_validate_json(line).lesson
    return lesson.key, lesson.searched_text
