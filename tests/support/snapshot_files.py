"""Snapshots taken at a given moment."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from lessons_loop.promote.session import open_gate
from lessons_loop.promote.snapshot.kept import (
    create_snapshot,
)
from support.gate import settings as gate_settings

START = datetime(2026, 1, 1, tzinfo=UTC)


def take(root: Path, moment: datetime = START) -> Path:
    with open_gate(gate_settings(root), now=lambda: moment) as session:
        return create_snapshot(session)
