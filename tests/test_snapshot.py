from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from lessons_loop.filter.errors import StoreDamaged
from lessons_loop.promote.curated import Header
from lessons_loop.promote.snapshot import Contents, list_snapshots, read_snapshot, write_snapshot
from support.gate import archived, candidate, curated, gate, lesson, promotion, retirement

START = datetime(2026, 1, 1, tzinfo=UTC)


def contents(domain: str = "sql") -> Contents:
    row, gone = curated(lesson("Use it. 🚨 经验")), archived(lesson("Not it."))
    header = Header(domain=domain, state_id="s", state_dir="d")
    vectors = np.ones((1, 4), dtype=np.float32) / 2
    return Contents(header, {row.key: row}, {gone.id: gone}, vectors)


def test_snapshot_reads_back_whole(tmp_path: Path) -> None:
    given = contents()
    found = read_snapshot(write_snapshot(tmp_path, given, "run-1", START))
    assert found.curated == tuple(given.curated.values())
    assert found.archive == tuple(given.archive.values())
    np.testing.assert_array_equal(found.vectors, given.vectors)


@pytest.mark.parametrize("name", ["curated.jsonl.gz", "archive.jsonl.gz", "vectors.npy"])
@pytest.mark.parametrize("damage", ["changed", "gone"])
def test_damaged_snapshot_is_refused(tmp_path: Path, name: str, damage: str) -> None:
    folder = write_snapshot(tmp_path, contents(), "run-1", START)
    file = folder / name
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(StoreDamaged, match=r"does not match|incomplete"):
        read_snapshot(folder)


def test_folder_without_manifest_is_no_snapshot(tmp_path: Path) -> None:
    with pytest.raises(StoreDamaged, match="no snapshot"):
        read_snapshot(tmp_path)


def test_thirty_days_are_kept(tmp_path: Path) -> None:
    for day in range(50):
        write_snapshot(tmp_path, contents(), "run", START + timedelta(days=day))
    assert len(list_snapshots(tmp_path, "sql")) == 31


def test_last_eight_are_kept_however_old(tmp_path: Path) -> None:
    for month in range(12):
        write_snapshot(tmp_path, contents(), "run", START + timedelta(days=40 * month))
    assert len(list_snapshots(tmp_path, "sql")) == 8


def test_pruning_leaves_other_domains_and_strangers(tmp_path: Path) -> None:
    write_snapshot(tmp_path, contents("other"), "run", START)
    stranger = tmp_path / "snapshots" / "by-hand"
    stranger.mkdir()
    for month in range(1, 12):
        write_snapshot(tmp_path, contents(), "run", START + timedelta(days=40 * month))
    assert len(list_snapshots(tmp_path, "other")) == 1
    assert stranger.is_dir()


def test_run_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    folder = write_snapshot(tmp_path, contents(), "../../x y", START)
    assert folder.parent == tmp_path / "snapshots"


def test_writing_run_takes_one_snapshot_before(root: Path) -> None:
    found = candidate()
    with gate(root) as session:
        session.apply(promotion(session, found))
    with gate(root) as session:
        session.candidates()
    with gate(root) as session:
        session.apply(retirement(session, found.lesson.key))
        session.apply(promotion(session, found))
    snapshots = [read_snapshot(folder) for folder in list_snapshots(root / "state", "sql")]
    assert [len(snapshot.curated) for snapshot in snapshots] == [0, 1]
    assert snapshots[1].vectors.shape == (1, 64)
