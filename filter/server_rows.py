"""Rows of a curated collection as recall holds them: checked, vectors made unit, joined."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, ValidationError

from lessons_loop.filter.embed import Fingerprint, Vectors
from lessons_loop.filter.errors import InvalidLesson, StoreError
from lessons_loop.filter.models import CURATED_FIELDS, Curated, Record
from lessons_loop.filter.published import PublishedHeader, PublishedSet
from lessons_loop.filter.schema import refuse_unreadable


class CuratedHeader(BaseModel):
    """What recall needs of curated's collection metadata."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    domain: str
    rev: int
    embedding: str = ""
    floor: float = -1.0
    lexical_floor: float = -1.0
    mean: str = ""
    calibrated_rev: int = -1

    @property
    def fingerprint(self) -> Fingerprint | None:
        """Return the embedding model of the vectors; raise ValueError."""
        return Fingerprint.model_validate_json(self.embedding) if self.embedding else None

    def published(self, count: int) -> PublishedHeader:
        """Return what a published file would say; raise ValueError."""
        mark = self.fingerprint
        mean = tuple(map(float, json.loads(self.mean))) if self.mean else ()
        usable = mark is not None and len(mean) == mark.dimension and bool(np.isfinite(mean).all())
        return PublishedHeader(
            domain=self.domain,
            rev=self.rev,
            count=count,
            dimension=mark.dimension if mark else 0,
            fingerprint=mark,
            floor=self.floor if self.floor >= 0 else None,
            lexical_floor=self.lexical_floor if self.lexical_floor >= 0 else None,
            mean=mean if usable else (),
            lessons_bytes=0,
            sha256="",
        )


def read_header(metadata: object, what: str) -> CuratedHeader:
    """Return the header in a collection's metadata; raise StoreError, StoreNewer."""
    found = metadata if isinstance(metadata, Mapping) else {}
    refuse_unreadable(found, what)
    try:
        return CuratedHeader.model_validate(found)
    except ValidationError:
        raise StoreError(f"{what} was not made by `lessons init`") from None


class Page(NamedTuple):
    """One page's usable rows."""

    lines: list[bytes]
    keys: list[str]
    words: list[str]
    vectors: Vectors
    bad_rows: int
    bad_vectors: int


def read_page(page: Any, domain: str, dimension: int) -> Page:
    """Return the rows of one answer that recall can use."""
    rows = [
        read_row(*row, domain)
        for row in zip(page["ids"], page["documents"], page["metadatas"], strict=True)
    ]
    vectors = page_vectors(page.get("embeddings"), len(rows), dimension)
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1)  # no overflow: NaN and inf stay
    sound = (np.isfinite(norms) & (norms > 0)) | (dimension == 0)
    kept = [n for n, row in enumerate(rows) if row is not None and sound[n]]
    chosen = [row for n in kept if (row := rows[n]) is not None]
    unit = vectors[kept] / (norms[kept, None] if dimension else 1.0)
    return Page(
        [row.model_dump_json().encode() for row in chosen],
        [row.key for row in chosen],
        [row.lesson.searched_text for row in chosen],
        unit.astype(np.float32, copy=False),
        sum(row is None for row in rows),
        sum(row is not None for row in rows) - len(kept),
    )


def read_row(id_: str, document: Any, metadata: Any, domain: str) -> Curated | None:
    """Return a row as a lesson, None when it is none of this domain.

    Fields of a later release are left out: recall only reads.
    """
    try:
        own = {name: value for name, value in (metadata or {}).items() if name in CURATED_FIELDS}
        found = Curated.from_record(Record(id_, document, own))
    except (InvalidLesson, TypeError, ValueError, AttributeError):
        return None
    return found if found.lesson.domain == domain else None


def page_vectors(rows: object, count: int, dimension: int) -> npt.NDArray[np.float32]:
    """Return the vectors as they came, shape (count, dimension); NaN where they are none."""
    nothing = np.full((count, dimension), np.nan, np.float32)
    if not dimension:
        return nothing
    try:
        with np.errstate(over="ignore"):
            matrix = np.asarray(rows, dtype=np.float32)
    except (TypeError, ValueError):
        return nothing
    return matrix if matrix.shape == (count, dimension) else nothing


def joined(header: PublishedHeader, pages: Sequence[Page]) -> PublishedSet:
    """Return all pages as one set in memory."""
    keys = tuple(key for page in pages for key in page.keys)
    empty = np.zeros((0, header.dimension), np.float32)
    vectors = np.concatenate([empty, *(page.vectors for page in pages)])
    return PublishedSet(
        header.model_copy(update={"count": len(keys)}),
        tuple(line for page in pages for line in page.lines),
        keys,
        tuple(text for page in pages for text in page.words),
        vectors,
    )


def note_of(name: str, pages: Sequence[Page], count: int, most: int) -> str:
    """Say which rows recall goes without, and what to run."""
    rows, vectors = sum(p.bad_rows for p in pages), sum(p.bad_vectors for p in pages)
    parts = [
        f"{rows} rows cannot be read: run `lessons verify`" if rows else "",
        f"{vectors} rows have no usable vector: run `lessons reembed`" if vectors else "",
        f"it has {count} lessons, only the first {most} are recalled" if count > most else "",
    ]
    told = "; ".join(filter(None, parts))
    return f"{name}: {told}" if told else ""
