"""Seconds of a snapshot and of a restore, 10,000 lessons of 384 dimensions in a folder.

A restore's time is the whole command's: reading the snapshot, opening the store, its own
snapshot first, the change, reading everything back, publishing. No model is asked.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lessons_loop.deploy.bench.figures import Figure, spread
from lessons_loop.deploy.bench.store import RandomEmbedder, made_up_lessons, made_up_vectors
from lessons_loop.filter.models import Curated, Status
from lessons_loop.promote.records import Action, Actor, Archived, Change
from lessons_loop.promote.session import GateSession, GateSettings, open_gate
from lessons_loop.promote.snapshot.kept import create_snapshot, list_snapshots, read_snapshot
from lessons_loop.promote.snapshot.restore import Wanted, restore

COUNT = 10_000
LIMIT = "≤ 15 s"
DOMAIN = "bench"
RULE = Actor(kind="rule", name="bench")
Spoil = Callable[[Sequence[Curated]], Change]


def snapshot_figures(count: int = COUNT, runs: int = 3) -> list[Figure]:
    """Return what a snapshot and three restores take, in seconds."""
    with tempfile.TemporaryDirectory(prefix="lessons-bench-") as folder:
        settings = GateSettings(folder, DOMAIN, embedder=RandomEmbedder())
        _fill(settings, count)
        taken = [_timed(lambda: _take(settings)) for _ in range(runs)]
        path = list_snapshots(Path(folder) / "state", DOMAIN)[-1]
        figures = [_seconds(f"snapshot of {count:,} lessons", taken)]
        for what, spoil in SPOILED:
            times = [_restored(settings, path, spoil) for _ in range(runs)]
            figures.append(_seconds(f"restore of {count:,}: {what}", times))
    return figures


def _seconds(name: str, values: Sequence[float]) -> Figure:
    return spread(name, values, LIMIT, unit="s")


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _fill(settings: GateSettings, count: int) -> None:
    rows = [_curated(row) for row in made_up_lessons(count)]
    change = Change(
        Action.SEED, "", "made up", RULE, {}, put=tuple(rows), vectors=made_up_vectors(count)
    )
    with open_gate(settings) as session:
        session.apply(change)


def _curated(row: Curated) -> Curated:
    lesson = row.lesson.model_copy(update={"status": Status.CURATED})
    return row.model_copy(update={"lesson": lesson})


def _take(settings: GateSettings) -> None:
    with open_gate(settings) as session:
        create_snapshot(session)


def _restored(settings: GateSettings, path: Path, spoil: Spoil) -> float:
    """Spoil the store, restore it, and return what that took."""
    with open_gate(settings) as session:
        session.apply(spoil(list(session.curated.values())))
    return _timed(lambda: _restore(settings, path))


def _restore(settings: GateSettings, path: Path) -> None:
    state = path.parents[2]
    wanted = Wanted(path, read_snapshot(path), list_snapshots(state, DOMAIN))
    with open_gate(settings) as session:
        _refuse_nothing(session, wanted)


def _refuse_nothing(session: GateSession, wanted: Wanted) -> None:
    found = restore(session, wanted, RULE)
    if found.difference.empty:
        raise AssertionError("the store was not spoiled: nothing was measured")


def _count_up(rows: Sequence[Curated]) -> Change:
    """Count an answer on every lesson."""
    counted = tuple(row.model_copy(update={"hits": row.hits + 1}) for row in rows)
    return Change(Action.FOLD, "", "counted", RULE, {}, put=counted)


def _withdraw(rows: Sequence[Curated]) -> Change:
    gone = [
        Archived(
            lesson=row.lesson.model_copy(update={"status": Status.STALE}),
            reason="bench",
            at=row.since,
            curated=row,
        )
        for row in rows
    ]
    return Change(
        Action.RETIRE, "", "gone", RULE, {}, remove=tuple(row.key for row in rows),
        archive=tuple(gone),
    )  # fmt: skip


SPOILED: tuple[tuple[str, Spoil], ...] = (
    ("counters of all", _count_up),
    ("a tenth is gone", lambda rows: _withdraw(rows[: len(rows) // 10])),
    ("all are gone", _withdraw),
)
"""What a bad run did, the last as bad as can be."""
