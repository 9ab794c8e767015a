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
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from lessons_loop.filter.embed import Fingerprint, Vectors
from lessons_loop.filter.errors import StoreDamaged, StoreError
from lessons_loop.filter.models import Curated, Lesson
from lessons_loop.filter.schema import FIRST_SCHEMA, refuse_unreadable

PUBLISHED_FORMAT = "lessons-published/1"
PUBLISHED_ALIGN = 64


class PublishedHeader(BaseModel):
    """What line 1 says about the rest."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: str = PUBLISHED_FORMAT
    schema_version: int = FIRST_SCHEMA
    min_reader: int = FIRST_SCHEMA
    """The schema a plugin has to know at least."""
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
        return tuple(map(published_lesson, self.lines))


def read_published(path: Path) -> PublishedSet | None:
    """Return the file's content, None when there is none; raise StoreError, StoreDamaged."""
    try:
        with path.open("rb") as file:
            head, body = file.readline(), file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from None
    return parse_published(path, parse_header(path, head), body)


def parse_header(path: Path, line: bytes) -> PublishedHeader:
    """Return the header that line 1 is; raise StoreNewer, StoreDamaged, StoreError."""
    try:
        found = json.loads(line)
        refuse_unreadable(found if isinstance(found, dict) else {}, str(path))
        header = PublishedHeader.model_validate(found)
    except (ValueError, RecursionError):
        raise StoreDamaged(f"{path} has no readable header: run `lessons publish`") from None
    if header.format != PUBLISHED_FORMAT:
        raise StoreError(
            f"{path} has format {header.format}, this release reads {PUBLISHED_FORMAT}: "
            "upgrade the older of the two"
        )
    return header


def parse_published(path: Path, header: PublishedHeader, body: bytes) -> PublishedSet:
    """Check the body against its header and return it in memory."""
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
    lesson = published_lesson(line).lesson
    return lesson.key, lesson.searched_text


def published_lesson(line: bytes) -> Curated:
    """Return a line's lesson; fields of a later release are left out; raise ValueError."""
    try:
        return Curated.model_validate_json(line)
    except ValidationError:
        return Curated.model_validate_json(json.dumps(known_fields(json.loads(line))))


def known_fields(found: Any) -> dict[str, Any]:
    """Return of a published line what this release knows; raise ValueError."""
    if not isinstance(found, dict) or not isinstance(found.get("lesson"), dict):
        raise ValueError("no lesson")
    lesson = {name: value for name, value in found["lesson"].items() if name in Lesson.model_fields}
    own = {name: value for name, value in found.items() if name in Curated.model_fields}
    return own | {"lesson": lesson}
