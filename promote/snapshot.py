"""Snapshots: everything a domain's gate knew before a run wrote.

    state/snapshots/<stamp>-<run>/   curated.jsonl.gz  archive.jsonl.gz  vectors.npy  manifest.json

Rows are Chroma's own (id, document, metadata). A folder appears under its name only
when complete. Kept for 30 days, and never fewer than the last 8 of a domain.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.errors import InvalidLesson, StoreDamaged
from lessons_loop.filter.models import Curated, Record
from lessons_loop.promote.clock import iso, parse_iso, stamp
from lessons_loop.promote.curated import Header
from lessons_loop.promote.files import file_errors, private_folder, sync_folder, write_atomic
from lessons_loop.promote.records import Archived

SNAPSHOT_FORMAT = "lessons-snapshot/1"
KEEP_DAYS = 30
KEEP_LAST = 8
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class Manifest(BaseModel):
    """What a snapshot holds; its files' hashes vouch for them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str = SNAPSHOT_FORMAT
    at: str
    run: str
    header: Header
    curated: int
    archive: int
    sha256: dict[str, str]
    """File name to hash."""


@dataclass(frozen=True)
class Snapshot:
    """A snapshot in memory, verified."""

    manifest: Manifest
    curated: tuple[Curated, ...]
    archive: tuple[Archived, ...]
    vectors: Vectors
    """Unit rows in the order of `curated`; empty where there was no embedder yet."""


class Contents(NamedTuple):
    """What goes into a snapshot."""

    header: Header
    curated: Mapping[str, Curated]
    archive: Mapping[str, Archived]
    vectors: Vectors


def write_snapshot(state: Path, contents: Contents, run: str, moment: datetime) -> Path:
    """Write one snapshot and drop those that are due; return its folder; raise StoreError."""
    parent = state / "snapshots"
    private_folder(parent)
    folder = parent / f"{stamp(moment)}-{_UNSAFE.sub('-', run)[:60]}"
    draft = parent / f".{folder.name}.tmp"
    files = _files(contents)
    manifest = Manifest(
        at=iso(moment),
        run=run,
        header=contents.header,
        curated=len(contents.curated),
        archive=len(contents.archive),
        sha256={name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    )
    with file_errors(draft):
        _drop_drafts(parent)
        draft.mkdir(mode=0o700)
        for name, content in files.items():
            write_atomic(draft / name, content)
        write_atomic(draft / "manifest.json", manifest.model_dump_json(indent=1).encode())
        os.replace(draft, folder)
        sync_folder(parent)
        prune(parent, contents.header.domain, moment)
    return folder


def read_snapshot(folder: Path) -> Snapshot:
    """Return a snapshot whose files match their hashes; raise StoreDamaged."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise StoreDamaged(f"{folder} is no snapshot of this release")
    try:
        files = {name: (folder / Path(name).name).read_bytes() for name in manifest.sha256}
    except OSError as error:
        raise StoreDamaged(f"{folder} is incomplete: {error.strerror}") from None
    for name, content in files.items():
        if hashlib.sha256(content).hexdigest() != manifest.sha256[name]:
            raise StoreDamaged(f"{folder / name} does not match the snapshot's manifest")
    try:
        curated = tuple(Curated.from_record(row) for row in _rows(files["curated.jsonl.gz"]))
        archive = tuple(Archived.from_record(row) for row in _rows(files["archive.jsonl.gz"]))
        vectors = np.load(io.BytesIO(files["vectors.npy"]), allow_pickle=False)
    except (InvalidLesson, ValueError, KeyError, TypeError, OSError):
        raise StoreDamaged(f"{folder} holds a row that cannot be read") from None
    if (len(curated), len(archive)) != (manifest.curated, manifest.archive):
        raise StoreDamaged(f"{folder} holds other counts than its manifest")
    return Snapshot(manifest, curated, archive, vectors)


def read_manifest(folder: Path) -> Manifest | None:
    """Return a folder's manifest, None when it has none of ours."""
    try:
        found = Manifest.model_validate_json((folder / "manifest.json").read_bytes())
    except (OSError, ValidationError):
        return None
    return found if found.format == SNAPSHOT_FORMAT else None


def list_snapshots(state: Path, domain: str) -> list[Path]:
    """Return a domain's snapshot folders, oldest first."""
    parent = state / "snapshots"
    folders = sorted(parent.iterdir()) if parent.is_dir() else []
    return [folder for folder in folders if _belongs(folder, domain)]


def prune(parent: Path, domain: str, moment: datetime) -> list[Path]:
    """Delete what is older than 30 days, never the last 8; return what went."""
    gone = []
    for folder in list_snapshots(parent.parent, domain)[:-KEEP_LAST]:
        manifest = read_manifest(folder)
        taken = parse_iso(manifest.at) if manifest else None
        if taken and moment - taken > timedelta(days=KEEP_DAYS):
            shutil.rmtree(folder)
            gone.append(folder)
    return gone


def _belongs(folder: Path, domain: str) -> bool:
    if folder.name.startswith("."):
        return False
    manifest = read_manifest(folder)
    return manifest is not None and manifest.header.domain == domain


def _drop_drafts(parent: Path) -> None:
    for draft in parent.glob(".*.tmp"):  # of a run that died; the lock says nobody writes now
        shutil.rmtree(draft, ignore_errors=True)


def _files(contents: Contents) -> dict[str, bytes]:
    vectors = io.BytesIO()
    np.save(vectors, np.asarray(contents.vectors, dtype=np.float32), allow_pickle=False)
    return {
        "curated.jsonl.gz": _packed([row.to_record() for row in contents.curated.values()]),
        "archive.jsonl.gz": _packed([row.to_record() for row in contents.archive.values()]),
        "vectors.npy": vectors.getvalue(),
    }


def _packed(records: Sequence[Record]) -> bytes:
    lines = "".join(json.dumps(record._asdict(), ensure_ascii=False) + "\n" for record in records)
    return gzip.compress(lines.encode(), compresslevel=6, mtime=0)


def _rows(content: bytes) -> list[Record]:
    return [Record(**json.loads(line)) for line in gzip.decompress(content).splitlines()]
