"""A store before and after a bad week, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lessons_loop.filter.models import Status
from lessons_loop.promote.decay.fold import fold_events
from lessons_loop.promote.records import Action, Change
from lessons_loop.promote.session import open_gate
from lessons_loop.promote.snapshot.kept import create_snapshot, read_snapshot
from lessons_loop.promote.snapshot.restore import Comparison, Wanted, restore
from support.gate import (
    HUMAN,
    archived,
    bare,
    candidate,
    gate,
    promotion,
    retirement,
    stage,
    stage_usage,
)
from support.snapshots import TEXTS, snapshots, used
from support.snapshots import fill as fill_anew
from support.templates import copied


def fill(root: Path) -> None:
    """Make the store that has some of everything."""
    copied(fill_anew, root)


def take(root: Path) -> Path:
    with gate(root) as session:
        return create_snapshot(session)


def wanted(root: Path, path: Path, *, exact: bool = False) -> Wanted:
    return Wanted(path, read_snapshot(path), snapshots(root), exact)


def go_back(root: Path, path: Path, *, exact: bool = False) -> Comparison:
    with open_gate(bare(root)) as session:
        return restore(session, wanted(root, path, exact=exact), HUMAN, "test")


def holdings(root: Path) -> dict[str, Any]:
    with gate(root) as session:
        return {
            "curated": {k: row.model_copy(update={"rev": 0}) for k, row in session.curated.items()},
            "vectors": np.round(session.nearest_vectors()[1], 5).tolist(),
            "archive": dict(session.archive),
            "archived vectors": session.archive_vectors()[0],
            "candidates": {found.id for found in session.candidates()},
            "events": {id_ for id_, _ in session.usages()},
            "uses": list(session.uses.rows()),
            "problems": session.ledger.verify(),
        }


def turn_over(root: Path) -> None:
    """Fold, withdraw every lesson, promote every candidate."""
    with gate(root) as session:
        fold_events(session)
        for key in list(session.curated):
            session.apply(retirement(session, key, Status.REJECTED))
        for found in session.candidates():
            session.apply(promotion(session, found))


def spoil(root: Path) -> None:
    """Do what a bad week does: fold, withdraw, promote, reject, and let new things arrive."""
    turn_over(root)
    stage(root, [candidate("Join on the surrogate key.", message="m20")])
    key = candidate(TEXTS[0]).lesson.key
    stage_usage(root, "sql", [used(key, "u20")])


def rejection(found: Any) -> Change:
    row = archived(found.lesson, candidate=found)
    return Change(
        Action.REJECT, found.lesson.key, "no", HUMAN, {}, archive=(row,), staged=(found.id,)
    )
