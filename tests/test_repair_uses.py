"""A damaged use register is mended from what reads of it and from the newest snapshot."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lessons_loop.filter.errors import StoreDamaged
from lessons_loop.promote.decay.fold import fold_events
from lessons_loop.promote.decay.uses import UseRegister
from lessons_loop.promote.snapshot.kept import create_snapshot
from lessons_loop.promote.store.rebuild import repair_store
from support.gate import candidate, gate, stage_usage
from support.restoring import fill
from support.snapshots import TEXTS, used


@pytest.fixture
def register(tmp_path: Path) -> UseRegister:
    """One of a store whose newest snapshot has all its four uses."""
    fill(tmp_path)
    with gate(tmp_path) as session:
        fold_events(session)
        create_snapshot(session)
    return UseRegister(tmp_path / "state", "sql")


def spoil_row(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("update uses set row = '{}' where id = (select min(id) from uses)")


def garbage(path: Path) -> None:
    path.write_bytes(b"garbage" * 100)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("spoil", [spoil_row, garbage, emptied])
def test_damaged_register_names_the_repair_that_mends_it(
    register: UseRegister, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    before = list(register.rows())
    spoil(register.path)
    with pytest.raises(StoreDamaged, match="run `lessons repair`"):
        list(register.rows())
    report = repair_store(str(tmp_path))[-1]
    assert list(register.rows()) == before and len(before) == 4
    assert report.outcome == "rebuilt" and report.aside and report.aside.is_file()


def test_run_after_the_repair_counts_nothing_twice(register: UseRegister, tmp_path: Path) -> None:
    key = candidate(TEXTS[0], message="m0").lesson.key
    garbage(register.path)
    repair_store(str(tmp_path))
    stage_usage(tmp_path, "sql", [used(key, "u9"), used(key, "u10")])
    with gate(tmp_path) as session:
        fold_events(session)
        assert session.curated[key].hits == 5


def test_sound_register_is_left_alone(register: UseRegister, tmp_path: Path) -> None:
    before = register.path.read_bytes()
    assert repair_store(str(tmp_path))[-1].line == "use register is sound"
    assert register.path.read_bytes() == before
