"""Names, order and age of snapshots: which are kept, and how a person names one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from lessons_loop.filter.errors import StoreError
from lessons_loop.promote.clock import stamp
from lessons_loop.promote.session import open_gate
from lessons_loop.promote.snapshot.files import (
    KEEP_LAST,
    KEEP_MOST,
    find_snapshot,
    list_snapshots,
    prune,
    taken_at,
)
from lessons_loop.promote.snapshot.kept import (
    Occasion,
    create_snapshot,
    old_folders,
)
from support.gate import gate, on_folder
from support.gate import settings as gate_settings
from support.snapshot_files import START, take
from support.snapshots import snapshots


# --- names, order, age
def take_all(root: Path, moments: Sequence[datetime]) -> list[Path]:
    ahead = iter(moments)
    with gate(root) as session:
        session.now = lambda: next(ahead, moments[-1])
        return [create_snapshot(session) for _ in moments]


@on_folder
def test_thirty_days_are_kept(root: Path) -> None:
    taken = take_all(root, [START + timedelta(days=day) for day in range(45)])
    assert snapshots(root) == taken[-31:]


@on_folder
def test_last_eight_are_kept_however_old(root: Path) -> None:
    taken = take_all(root, [START + timedelta(days=40 * month) for month in range(10)])
    assert snapshots(root) == taken[-8:]


@on_folder
def test_hourly_snapshots_thin_out_to_one_a_day(root: Path) -> None:
    folder = root / "state" / "snapshots" / "sql"
    folder.mkdir(parents=True)
    hours = [START + timedelta(hours=hour) for hour in range(24 * 10)]
    for moment in hours:
        (folder / f"{stamp(moment)}.tar.gz").touch()
    prune(root / "state", "sql", hours[-1])
    left = [taken_at(path) for path in list_snapshots(root / "state", "sql")]
    days = {moment.date() for moment in hours}
    assert {moment.date() for moment in left} == days and left[-24:] == hours[-24:]
    assert len(left) <= 24 + len(days)


@on_folder
def test_asked_for_snapshot_is_not_thinned_out(root: Path) -> None:
    with open_gate(gate_settings(root), now=lambda: START) as session:
        session.occasion = Occasion("before the change")
        mine = create_snapshot(session)
    for minute in range(1, 2 * KEEP_MOST):
        other = START + timedelta(minutes=minute)
        (mine.parent / f"{stamp(other)}.tar.gz").touch()
    prune(root / "state", "sql", START + timedelta(days=2))
    left = list_snapshots(root / "state", "sql")
    assert mine in left and len(left) == 1 + KEEP_LAST


@on_folder
def test_spared_snapshot_outlives_its_age(root: Path) -> None:
    taken = take_all(root, [START + timedelta(minutes=n) for n in range(10)])
    gone = prune(root / "state", "sql", START + timedelta(days=90), spare=taken[0].name)
    assert gone == [taken[1]]


@on_folder
def test_clock_set_back_keeps_the_order(root: Path) -> None:
    taken = take_all(root, [START - timedelta(days=day) for day in (0, 400, 0, 0, 3)])
    assert snapshots(root) == taken and len(set(taken)) == 5


@on_folder
def test_domains_and_strangers_are_left_alone(root: Path) -> None:
    old = root / "state" / "snapshots" / "20260101T000000000000Z-run"
    take(root)
    old.mkdir()
    (old / "manifest.json").write_text("{}")
    (root / "state" / "snapshots" / "sql" / "by-hand.tar.gz").write_text("mine")
    draft = root / "state" / "snapshots" / "sql" / ".20260101T000000000000Z.tar.gz.tmp"
    draft.write_text("half")
    with open_gate(gate_settings(root, domain="other")) as session:
        other = create_snapshot(session)
    take_all(root, [START + timedelta(days=40 * month) for month in range(1, 11)])
    assert other.exists() and old_folders(root / "state") == [old]
    assert (root / "state" / "snapshots" / "sql" / "by-hand.tar.gz").exists()
    assert not draft.exists()


@pytest.fixture
def taken(tmp_path: Path) -> list[Path]:
    days = (0, 1, 1.5, 3)
    return take_all(tmp_path / "store", [START + timedelta(days=day) for day in days])


@pytest.mark.parametrize(
    ("when", "number"),
    [
        ("20260102T00", 1),
        ("20260104T000000000000Z", 3),
        ("2026-01-01", 0),
        ("2026-01-02", 2),
        ("2026-01-02T11:00", 1),
        ("2026-01-02T14:00+02:00", 2),
        ("2030-01-01", 3),
        (" latest ", 3),
    ],
)
def test_person_names_a_snapshot(taken: list[Path], when: str, number: int) -> None:
    assert find_snapshot(taken[0].parents[2], "sql", when) == taken[number]


@pytest.mark.parametrize(
    ("when", "told"),
    [
        ("20260102", "means 2 snapshots"),
        ("2025-12-31", "none is|that old"),
        ("yesterday", "is called 'yesterday'"),
        ("", "is called"),
        ("../../etc/passwd", "is called"),
    ],
)
def test_unknown_names_are_refused(taken: list[Path], when: str, told: str) -> None:
    with pytest.raises(StoreError, match=told):
        find_snapshot(taken[0].parents[2], "sql", when)
