"""Publish curated: as the one file recall reads (`filter/published.py`), or where it lies.

On a server recall reads curated itself: only the floors are missing there, and go
into the collection's metadata.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lessons_loop.filter.embed import Embedder, Fingerprint, Vectors
from lessons_loop.filter.errors import StoreDamaged, StoreError
from lessons_loop.filter.models import Curated
from lessons_loop.filter.published import (
    PUBLISHED_ALIGN,
    PublishedHeader,
    PublishedSet,
    read_published,
)
from lessons_loop.filter.schema import PUBLISHED_READER, SCHEMA
from lessons_loop.promote.embedding.calibrate import Calibration, calibrate
from lessons_loop.promote.files import public_folder, write_atomic
from lessons_loop.promote.store.curated import Header

PUBLISHED_MODE = 0o644
UNPUBLISHED = {"proof"}
"""Recall has no use for it, and a plugin of schema 1 refuses the whole file for it."""


class Edition(NamedTuple):
    """What is to be published."""

    domain: str
    rev: int
    lessons: Sequence[Curated]
    vectors: Vectors
    """Unit rows, same order as `lessons`."""
    fingerprint: Fingerprint | None


def published_is_current(path: Path, rev: int, fingerprint: Fingerprint | None) -> bool:
    """Say whether the file at `path` is sound and of this revision and model."""
    found = _readable(path)
    return found is not None and (found.header.rev, found.header.fingerprint) == (rev, fingerprint)


def publish(path: Path, edition: Edition, embedder: Embedder | None = None) -> PublishedHeader:
    """Replace the published file in one step and read it back; raise StoreError.

    Without an embedder the floor of the file before is kept: the lessons' model is the same.
    """
    header, body = render(edition, _calibrated(path, edition, embedder))
    public_folder(path.parent)
    write_atomic(path, header.model_dump_json().encode() + b"\n" + body, PUBLISHED_MODE)
    found = read_published(path)
    if found is None or found.header != header:
        raise StoreError(f"{path} was not written as asked: run `lessons publish`")
    return header


def calibrated_header(header: Header, edition: Edition, embedder: Embedder | None) -> Header:
    """Return curated's header with the floors of this edition; raise EmbedError.

    Without an embedder the floor before is kept: the lessons' model is the same.
    """
    fresh = calibrate(edition.lessons, edition.vectors, embedder)
    found: dict[str, object] = {
        "lexical_floor": fresh.lexical_floor,
        "calibrated_rev": edition.rev,
    }
    if fresh.floor is not None:
        mean = json.dumps([round(number, 7) for number in fresh.mean]) if fresh.mean else ""
        found |= {"floor": fresh.floor, "mean": mean}
    return header.model_copy(update=found)


def render(edition: Edition, calibration: Calibration) -> tuple[PublishedHeader, bytes]:
    """Return header and body of the file."""
    lines = b"".join(
        lesson.model_dump_json(exclude=UNPUBLISHED).encode() + b"\n" for lesson in edition.lessons
    )
    padding = b" " * (-len(lines) % PUBLISHED_ALIGN)
    dimension = edition.fingerprint.dimension if edition.fingerprint else 0
    body = lines + padding + np.ascontiguousarray(edition.vectors, dtype="<f4").tobytes()
    header = PublishedHeader(
        schema_version=SCHEMA,
        min_reader=PUBLISHED_READER,
        domain=edition.domain,
        rev=edition.rev,
        count=len(edition.lessons),
        dimension=dimension,
        fingerprint=edition.fingerprint,
        floor=calibration.floor,
        lexical_floor=calibration.lexical_floor,
        mean=calibration.mean,
        lessons_bytes=len(lines),
        sha256=hashlib.sha256(body).hexdigest(),
    )
    return header, body


def _calibrated(path: Path, edition: Edition, embedder: Embedder | None) -> Calibration:
    fresh = calibrate(edition.lessons, edition.vectors, embedder)
    old = _readable(path)
    if fresh.floor is not None or old is None or old.header.fingerprint != edition.fingerprint:
        return fresh
    return fresh._replace(floor=old.header.floor, mean=old.header.mean)


def _readable(path: Path) -> PublishedSet | None:
    try:
        return read_published(path)
    except (StoreDamaged, StoreError):
        return None
