"""What stands in a snapshot's parts, to bytes and back; every row must fit its id.

Covered: rows of another domain, rows twice, ids that do not belong to their content, ledger
numbers beyond the snapshot's own, vectors that are no unit rows of the model's dimension.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from pydantic import ValidationError

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.errors import InvalidLesson, StoreDamaged
from lessons_loop.filter.events import Rating, Usage
from lessons_loop.filter.models import Candidate, Curated, Record, Status
from lessons_loop.filter.text import digest
from lessons_loop.promote.decay.uses import Use
from lessons_loop.promote.decide.plan import OUT_OF_USE
from lessons_loop.promote.records import Archived
from lessons_loop.promote.snapshot.tar import PARTS, Manifest, Member
from lessons_loop.promote.store.candidates import candidate_of, event_of

Event = Usage | Rating
Found = TypeVar("Found")


@dataclass(frozen=True)
class Snapshot:
    """A snapshot in memory."""

    manifest: Manifest
    """Of one that was read; `as_members` makes its parts anew."""
    curated: tuple[Curated, ...]
    archive: tuple[Archived, ...]
    candidates: tuple[Candidate, ...]
    events: tuple[Event, ...]
    uses: tuple[Use, ...]
    vectors: Mapping[str, Vectors]
    """Unit rows by lesson key; a lesson may have none."""
    archive_vectors: Mapping[str, Vectors]
    """By archive id."""


class Line(NamedTuple):
    """One row of a JSONL part."""

    record: Record
    vector: bool
    """Whether the next row of `vectors.npy` is its."""


def as_members(snapshot: Snapshot) -> tuple[Manifest, dict[str, Member]]:
    """Return a snapshot's parts, and its manifest with their hashes."""
    rows: dict[str, list[tuple[Record, Vectors | None]]] = {
        "candidates.jsonl": [(row.to_record(), None) for row in snapshot.candidates],
        "events.jsonl": [(row.to_record(), None) for row in snapshot.events],
        "curated.jsonl": [(r.to_record(), snapshot.vectors.get(r.key)) for r in snapshot.curated],
        "archive.jsonl": [
            (row.to_record(), snapshot.archive_vectors.get(row.id)) for row in snapshot.archive
        ],
    }
    members = {name: _lines(found) for name, found in rows.items()}
    uses = sorted(snapshot.uses, key=lambda use: use.id)
    members["uses.jsonl"] = Member(
        len(uses), b"".join(use.model_dump_json().encode() + b"\n" for use in uses)
    )
    members["vectors.npy"] = _vectors([*rows["curated.jsonl"], *rows["archive.jsonl"]])
    parts = {name: members[name].part for name in PARTS}
    return snapshot.manifest.model_copy(update={"parts": parts}), members


def _lines(rows: Iterable[tuple[Record, Vectors | None]]) -> Member:
    rows = list(rows)
    lines = (
        json.dumps(
            {**record._asdict(), **({"vector": True} if vector is not None else {})},
            ensure_ascii=False,
            separators=(",", ":"),
        )
        for record, vector in rows
    )
    return Member(len(rows), "".join(f"{line}\n" for line in lines).encode())


def _vectors(rows: Sequence[tuple[Record, Vectors | None]]) -> Member:
    found = [vector for _, vector in rows if vector is not None]
    matrix = np.stack(found) if found else np.empty((0, 0), dtype=np.float32)
    content = io.BytesIO()
    np.save(content, np.ascontiguousarray(matrix, dtype="<f4"), allow_pickle=False)
    return Member(len(found), content.getvalue())


def parse_parts(manifest: Manifest, parts: Mapping[str, bytes], path: Path) -> Snapshot:
    """Return the parts as rows; raise StoreDamaged."""
    try:
        return _parsed(manifest, parts)
    except (InvalidLesson, ValidationError, ValueError, KeyError, TypeError, AttributeError):
        raise StoreDamaged(f"{path} holds a row that cannot be read") from None
    except _Unfit as error:
        raise StoreDamaged(f"{path} is damaged: {error}") from None


class _Unfit(Exception):
    """A part contradicts the manifest or itself."""


def _parsed(manifest: Manifest, parts: Mapping[str, bytes]) -> Snapshot:
    domain, last = manifest.domain, manifest.ledger.n
    lines = {name: _read_lines(parts[name]) for name in PARTS[:2] + PARTS[3:5]}
    curated = _rows(lines["curated.jsonl"], lambda row: _curated(row, domain, last))
    archive = _rows(lines["archive.jsonl"], lambda row: _archived(row, domain, last))
    uses = {use.id: use for line in parts["uses.jsonl"].splitlines() if (use := _use(line))}
    found = Snapshot(
        manifest=manifest,
        curated=tuple(curated.values()),
        archive=tuple(archive.values()),
        candidates=tuple(
            _rows(lines["candidates.jsonl"], lambda row: candidate_of(row, domain)).values()
        ),
        events=tuple(_rows(lines["events.jsonl"], _event).values()),
        uses=tuple(uses.values()),
        **_vectors_by_id(manifest, parts["vectors.npy"], lines),
    )
    _check_counts(found)
    return found


def _check_counts(found: Snapshot) -> None:
    vectors = len(found.vectors) + len(found.archive_vectors)
    rows = (found.candidates, found.events, found.uses, found.curated, found.archive)
    for name, count in zip(PARTS, (*map(len, rows), vectors), strict=True):
        if found.manifest.parts[name].count != count:
            raise _Unfit(f"{name} holds {count} rows, its manifest says otherwise")
    if found.manifest.header.head != found.manifest.ledger:
        raise _Unfit("its manifest contradicts itself")
    if found.manifest.header.fingerprint != found.manifest.fingerprint:
        raise _Unfit("its manifest contradicts itself")


def _read_lines(content: bytes) -> list[Line]:
    lines = []
    for line in content.decode("utf-8").split("\n")[:-1]:
        found = json.loads(line)
        flag = found.pop("vector", False)
        lines.append(Line(Record(**found), flag is True))
    return lines


def _rows(lines: Iterable[Line], read: Callable[[Record], Found]) -> dict[str, Found]:
    found: dict[str, Found] = {}
    for line in lines:
        if line.record.id in found:
            raise _Unfit(f"row {line.record.id[:12]} stands there twice")
        found[line.record.id] = read(line.record)
    return found


def _event(record: Record) -> Event:
    found = event_of(record)
    if not isinstance(found, Usage | Rating):
        raise InvalidLesson("type: is none a snapshot keeps")
    return found


def _curated(record: Record, domain: str, last: int) -> Curated:
    found = Curated.from_record(record)
    if found.lesson.domain != domain or found.lesson.status is not Status.CURATED:
        raise InvalidLesson("row: is not curated here")
    if max(found.ledger_ref, found.verdict_ref) > last:
        raise InvalidLesson("row: names a ledger line to come")
    return found


def _archived(record: Record, domain: str, last: int) -> Archived:
    found = Archived.from_record(record)
    if found.id != record.id or found.lesson.text != record.document:
        raise InvalidLesson("id: does not belong to this content")
    if found.lesson.domain != domain or found.status not in OUT_OF_USE or found.ledger_ref > last:
        raise InvalidLesson("row: is not archived here")
    return found


def _use(line: bytes) -> Use:
    found = Use.model_validate_json(line)
    if found.id != digest(Usage.kind, found.message_ref, found.user_ref):
        raise InvalidLesson("id: does not belong to this content")
    return found


def _vectors_by_id(
    manifest: Manifest, content: bytes, lines: Mapping[str, Sequence[Line]]
) -> dict[str, dict[str, Vectors]]:
    matrix = _matrix(content)
    ids = [[line.record.id for line in lines[name] if line.vector] for name in PARTS[3:5]]
    cut = len(ids[0])
    if len(matrix) != cut + len(ids[1]):
        raise _Unfit("vectors.npy holds more or fewer rows than are named")
    model = manifest.fingerprint  # none yet: `restore` uses no vector of such a snapshot
    if model is not None and len(matrix) and matrix.shape[1] != model.dimension:
        raise _Unfit("vectors.npy has another dimension than its model")
    return {
        "vectors": dict(zip(ids[0], matrix[:cut], strict=True)),
        "archive_vectors": dict(zip(ids[1], matrix[cut:], strict=True)),
    }


def _matrix(content: bytes) -> Vectors:
    """Read an array of unit rows; nothing is taken from its header unchecked."""
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise _Unfit("vectors.npy is no plain array")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    body = content[file.tell() :]
    if fortran or dtype.str != "<f4" or len(shape) != 2 or len(body) != 4 * shape[0] * shape[1]:
        raise _Unfit("vectors.npy is no plain array")
    matrix = np.frombuffer(body, dtype="<f4").reshape(shape).astype(np.float32)
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(matrix.astype(np.float64), axis=1)
    if not np.allclose(norms, 1.0, atol=0.01):  # NaN is not close to anything
        raise _Unfit("vectors.npy holds what is no unit row")
    return matrix
