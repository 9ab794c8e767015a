"""A snapshot as one file: a tar of plain members under gzip, written and read strictly.

    manifest.json  candidates.jsonl  events.jsonl  uses.jsonl
    curated.jsonl  archive.jsonl  vectors.npy

Covered: damage of any byte, a cut-off end, path traversal, links, devices, members twice,
too many or in another order, sizes that are not told before, bombs.
Not covered: somebody who may write the state directory and makes every hash anew; what the
rows say is checked by `kept.py`.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lessons_loop.filter.embed import Fingerprint
from lessons_loop.filter.errors import StoreDamaged
from lessons_loop.promote.files import file_errors, replacing
from lessons_loop.promote.ledger.chain import Head
from lessons_loop.promote.store.curated import Header

SNAPSHOT_FORMAT = "lessons-snapshot/3"
EARLIER_FORMATS = ("lessons-snapshot/2",)
"""Of schema 1; the same parts."""
PARTS = (
    "candidates.jsonl",
    "events.jsonl",
    "uses.jsonl",
    "curated.jsonl",
    "archive.jsonl",
    "vectors.npy",
)
"""In this order: candidates are read of many snapshots, the rest of one."""
MANIFEST = "manifest.json"
MANIFEST_LIMIT = 2**20
BYTES_LIMIT = 2**32
"""Of all parts unpacked: 200,000 lessons of 4,096 dimensions."""
PLAIN_BYTES = 2**26
RATIO = 200
"""Times its own size a file may unpack to, beyond PLAIN_BYTES; real ones reach about 30."""
PADDING_LIMIT = 2**20
LEVEL = 1
"""Vectors hardly shrink: level 6 takes 15 percent longer for nothing (measured)."""
BLOCK = tarfile.BLOCKSIZE


class Part(BaseModel):
    """What the manifest says of one member."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    count: int = Field(ge=0)
    bytes: int = Field(ge=0)
    sha256: str


class Manifest(BaseModel):
    """What a snapshot holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: str = SNAPSHOT_FORMAT
    at: str
    """ISO 8601, UTC, by the clock of the run."""
    run: str
    domain: str
    purpose: str = ""
    """`restore`, or why a person took it; empty: before a run."""
    header: Header
    """Curated's own, as it was."""
    fingerprint: Fingerprint | None
    ledger: Head
    """The domain's last line that curated had seen."""
    parts: dict[str, Part]
    unreadable: int = 0
    """Rows of curated and staging that no reader takes: not kept."""
    rewritten: bool = False
    """Whether something was taken out later, by `lessons forget`."""

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each part."""
        return {name.partition(".")[0]: self.parts[name].count for name in PARTS}


@dataclass(frozen=True)
class Member:
    """The rows of one part, ready to write."""

    count: int
    content: bytes

    @property
    def part(self) -> Part:
        """What the manifest says of it."""
        digest = hashlib.sha256(self.content).hexdigest()
        return Part(count=self.count, bytes=len(self.content), sha256=digest)


def write_file(path: Path, manifest: Manifest, members: Mapping[str, Member]) -> None:
    """Write a snapshot in one step, on disk before it returns; raise StoreError."""
    with replacing(path) as file:
        _pack(file, manifest, members)


def _pack(file: BinaryIO, manifest: Manifest, members: Mapping[str, Member]) -> None:
    first = manifest.model_dump_json(indent=1).encode() + b"\n"
    with gzip.GzipFile("", "wb", LEVEL, file, mtime=0) as packed:
        for name, content in [(MANIFEST, first), *((one, members[one].content) for one in PARTS)]:
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o600
            packed.write(info.tobuf(tarfile.USTAR_FORMAT))
            packed.write(content)
            packed.write(bytes(-len(content) % BLOCK))
        packed.write(bytes(2 * BLOCK))


def read_manifest(path: Path) -> Manifest:
    """Return what a snapshot says it holds; raise StoreDamaged, StoreError."""
    with _unpacked(path) as (packed, size):
        return _read_manifest(packed, size, path)


def read_parts(path: Path, wanted: Sequence[str] = PARTS) -> tuple[Manifest, dict[str, bytes]]:
    """Return the parts of a snapshot that match its manifest; raise StoreDamaged, StoreError.

    The whole file is checked where all are wanted, else what stands before the last of them.
    """
    found: dict[str, bytes] = {}
    with _unpacked(path) as (packed, size):
        manifest = _read_manifest(packed, size, path)
        for name in PARTS:
            content = _member(packed, name, manifest.parts[name].bytes, path)
            if hashlib.sha256(content).hexdigest() != manifest.parts[name].sha256:
                raise StoreDamaged(f"{path} is damaged: {name} does not match its manifest")
            if name in wanted:
                found[name] = content
            if len(found) == len(wanted) < len(PARTS):
                return manifest, found
        _refuse_more(packed, path)
    return manifest, found


@contextmanager
def _unpacked(path: Path) -> Iterator[tuple[gzip.GzipFile, int]]:
    with file_errors(path):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise StoreDamaged(f"{path} is no plain file")
            try:
                with gzip.GzipFile(fileobj=file, mode="rb") as packed:
                    yield packed, status.st_size
            except (gzip.BadGzipFile, EOFError, zlib.error, tarfile.HeaderError):
                raise StoreDamaged(f"{path} is damaged: it cannot be unpacked") from None


def _read_manifest(packed: gzip.GzipFile, size: int, path: Path) -> Manifest:
    content = _member(packed, MANIFEST, None, path)
    try:
        named = _Format.model_validate_json(content)
        if named.format not in (SNAPSHOT_FORMAT, *EARLIER_FORMATS):
            raise StoreDamaged(
                f"{path} has format {named.format[:40]!r}, this release knows {SNAPSHOT_FORMAT}: "
                "upgrade lessons-loop"
            )
        manifest = Manifest.model_validate_json(content)
    except ValidationError:
        raise StoreDamaged(f"{path} is damaged: its manifest cannot be read") from None
    if set(manifest.parts) != set(PARTS) or manifest.header.domain != manifest.domain:
        raise StoreDamaged(f"{path} is damaged: its manifest contradicts itself")
    total = sum(part.bytes for part in manifest.parts.values())
    if total > min(BYTES_LIMIT, max(PLAIN_BYTES, RATIO * size)):
        raise StoreDamaged(f"{path} would unpack to {total} bytes: no snapshot of ours does")
    return manifest


class _Format(BaseModel):
    model_config = ConfigDict(extra="ignore")

    format: str


def _member(packed: gzip.GzipFile, name: str, size: int | None, path: Path) -> bytes:
    """Return the next member, which must be this one; `size` None: up to MANIFEST_LIMIT."""
    info = tarfile.TarInfo.frombuf(_exactly(packed, BLOCK), "utf-8", "surrogateescape")
    plain = info.type == tarfile.REGTYPE and not info.linkname
    fits = info.size <= MANIFEST_LIMIT if size is None else info.size == size
    if info.name != name or not plain or not fits or info.size < 0:
        raise StoreDamaged(f"{path} is damaged: {name} is not where it should be")
    content = _exactly(packed, info.size)
    if any(_exactly(packed, -info.size % BLOCK)):
        raise StoreDamaged(f"{path} is damaged: there is something behind {name}")
    return content


def _exactly(packed: gzip.GzipFile, count: int) -> bytes:
    content = packed.read(count)
    if len(content) != count:
        raise EOFError
    return content


def _refuse_more(packed: gzip.GzipFile, path: Path) -> None:
    rest = packed.read(PADDING_LIMIT)
    if len(rest) < 2 * BLOCK or any(rest) or packed.read(1):  # its last read checks the sum
        raise StoreDamaged(f"{path} is damaged: it does not end where it should")
