"""Test tools for snapshots: a store with some of everything, crafted files."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

from lessons_loop.filter.events import Usage
from lessons_loop.promote.decay.fold import fold_events
from lessons_loop.promote.snapshot.kept import list_snapshots
from support.gate import candidate, gate, promotion, retirement, stage, stage_usage

TEXTS = ("Look serials up in equipment_machine.", "Bound every telemetry read by day_key.")


def used(key: str, message: str) -> Usage:
    """Return the event of one answer that was given one lesson."""
    return Usage(keys=(key,), message_ref=message, user_ref="u1", at="2026-11-02T08:00:00Z")


def fill(root: Path) -> None:
    """Two lessons promoted, one of them retired, uses folded, a candidate and an event waiting."""
    found = [candidate(text, message=f"m{n}") for n, text in enumerate(TEXTS)]
    with gate(root) as session:
        for one in found:
            session.apply(promotion(session, one))
    stage_usage(root, "sql", [used(found[0].lesson.key, f"u{n}") for n in range(3)])
    with gate(root) as session:
        fold_events(session)
        session.apply(retirement(session, found[1].lesson.key))
    stage(root, [candidate("Read the pool size from pool_config.", message="m9")])
    stage_usage(root, "sql", [used(found[0].lesson.key, "u9")])


def snapshots(root: Path, domain: str = "sql") -> list[Path]:
    """Return the snapshots of a store, oldest first."""
    return list_snapshots(root / "state", domain)


def members(path: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    """Return a snapshot's members as a tar tool reads them."""
    with tarfile.open(path) as tar:
        return [(info, tar.extractfile(info).read()) for info in tar]  # type: ignore[union-attr]


def repack(path: Path, found: Sequence[tuple[tarfile.TarInfo, bytes]]) -> None:
    """Write members as they are given."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for info, body in found:
            tar.addfile(info, io.BytesIO(body))
    path.write_bytes(gzip.compress(content.getvalue(), mtime=0))
