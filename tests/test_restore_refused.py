"""What a restore does not bring back, and snapshots it refuses."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lessons_loop.filter.errors import LessonsError, StoreError
from lessons_loop.filter.models import Status
from lessons_loop.promote.forget.forgotten import Tombstone, append_tombstone, mark
from lessons_loop.promote.records import Action, Change
from lessons_loop.promote.session import open_gate
from lessons_loop.promote.snapshot.kept import create_snapshot, read_snapshot
from lessons_loop.promote.snapshot.restore import Wanted, restore
from support.gate import (
    HUMAN,
    HashEmbedder,
    archived,
    bare,
    candidate,
    gate,
    on_folder,
    settings,
    stage,
)
from support.restoring import fill, go_back, holdings, rejection, spoil, take, wanted
from support.snapshots import TEXTS, snapshots


# --- what was forgotten
def forget(root: Path, **fields: Any) -> None:
    stone = {"what": "user", "who": mark("user-1"), "at": "2027-01-01T00:00:00Z"} | fields
    append_tombstone(root / "state", Tombstone(**stone))


def test_forgotten_rows_do_not_come_back(root: Path) -> None:
    fill(root)
    path = take(root)
    spoil(root)
    forget(root, keys={candidate(TEXTS[0]).lesson.key: 99})
    forget(root, who=mark("u1"))
    go_back(root, path, exact=True)
    after = holdings(root)
    assert not (after["candidates"] or after["events"] or after["uses"] or after["curated"])
    assert go_back(root, path, exact=True).difference.empty


def test_forgotten_lesson_that_is_held_stays_held(root: Path) -> None:
    fill(root)
    path, key = take(root), candidate(TEXTS[0]).lesson.key
    with gate(root) as session:
        row = session.curated[key]
        held = archived(row.lesson, Status.HELD)
        session.apply(
            Change(Action.FORGET, key, "forgotten", HUMAN, {}, remove=(key,), archive=(held,))
        )
        line = session.ledger.entries()[-1].n
    forget(root, who=mark("somebody"), keys={key: line})
    go_back(root, path)
    with gate(root) as session:
        assert dict(session.curated) == {} and [r.lesson.key for r in session.held()] == [key]


# --- what is refused
@pytest.mark.parametrize("fault", ["domain", "state", "ledger", "model"])
def test_strange_snapshots_are_refused(root: Path, fault: str) -> None:
    fill(root)
    path = take(root)
    spoil(root)
    now, found = holdings(root), read_snapshot(path)
    manifest = found.manifest
    header = manifest.header
    changed: dict[str, Any] = {
        "domain": {"domain": "other", "header": header.model_copy(update={"domain": "other"})},
        "state": {"header": header.model_copy(update={"state_id": "0" * 16})},
        "ledger": {"ledger": manifest.ledger._replace(hash="0" * 64)},
        "model": {"fingerprint": strange_model(manifest.fingerprint)},
    }[fault]
    strange = replace(found, manifest=manifest.model_copy(update=changed))
    with open_gate(bare(root)) as session, pytest.raises(StoreError) as told:
        restore(session, Wanted(path, strange, snapshots(root)), HUMAN)
    assert "\n" not in str(told.value) and "snapshot" in str(told.value)
    assert holdings(root) == now


def strange_model(mine: Any) -> Any:
    from lessons_loop.filter.embed import fingerprint

    return fingerprint(HashEmbedder(64, salt="other"))


def test_dry_run_writes_nothing(root: Path) -> None:  # T-32
    fill(root)
    path = take(root)
    spoil(root)
    now, taken = holdings(root), snapshots(root)
    with open_gate(settings(root, dry_run=True)) as session:
        told = restore(session, wanted(root, path), HUMAN)
    assert not told.difference.empty
    assert (holdings(root), snapshots(root)) == (now, taken)


def test_unreadable_neighbours_are_told_not_fatal(root: Path) -> None:
    fill(root)
    path = take(root)
    spoil(root)
    snapshots(root)[-1].write_bytes(b"spoiled")
    assert "cannot be unpacked" in go_back(root, path).notes[0]


@on_folder
def test_old_snapshot_outlives_its_own_restore(root: Path) -> None:
    fill(root)
    with gate(root) as session:
        session.now = lambda: datetime(2025, 1, 1, tzinfo=UTC)
        old = create_snapshot(session)
    old = old.rename(old.with_name("20250101T000000000000Z.tar.gz"))
    taken = [old, *(take(root) for _ in range(9))]
    spoil(root)
    assert not old.exists()
    old.write_bytes(taken[-1].read_bytes())
    go_back(root, old)
    assert old.exists()


def test_unarchived_candidates_are_not_lost(root: Path) -> None:
    with gate(root):
        pass
    path, found = take(root), candidate()
    stage(root, [found])
    with gate(root) as session:
        session.apply(rejection(found))
    for late in snapshots(root)[2:]:
        late.unlink()
    go_back(root, path)
    assert holdings(root)["candidates"] == {found.id}


def test_broken_snapshot_changes_nothing(root: Path) -> None:
    fill(root)
    path = take(root)
    spoil(root)
    now = holdings(root)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(LessonsError):
        go_back(root, path)
    assert holdings(root) == now
