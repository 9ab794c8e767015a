"""Disks that fill up, locks, unusable folders: one clear line each, nothing half-written."""

from __future__ import annotations

import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from lessons_loop.filter.errors import (
    StoreDamaged,
    StoreError,
    StoreLocked,
)
from lessons_loop.filter.store import StorePaths
from support.faults import change_of, filled
from support.gate import (
    candidate,
    gate,
    on_folder,
    promotion,
)

DRIVER = Path(__file__).parent / "support" / "gate_driver.py"


@pytest.fixture
def root(root: Path) -> Path:
    """A store with one curated lesson and one candidate."""
    return filled(root)


@on_folder
def test_locked_staging_is_told_and_repaired_by_rerun(root: Path) -> None:
    paths = StorePaths(root)
    with gate(root) as session:
        (found,) = session.candidates()
        change = promotion(session, found)
        session.prepare()  # the snapshot reads staging
        child = subprocess.Popen(
            [sys.executable, "-c", HOLD_STAGING, str(paths.staging_lock)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None and child.stdout.readline()
        with pytest.raises(StoreLocked, match=r"staging\.lock is held"):
            session.apply(change)
        child.communicate(b"")
    with gate(root) as session:
        assert found.lesson.key in session.curated
        assert session.candidates() == []
        assert session.ledger.verify() == []


HOLD_STAGING = """
import pathlib, sys
from lessons_loop.filter.store import file_lock
with file_lock(pathlib.Path(sys.argv[1]), 5):
    print("held", flush=True)
    sys.stdin.read()
"""


@on_folder
def test_database_locked_by_another_program_is_told(root: Path) -> None:
    with closing(sqlite3.connect(root / "gate" / "chroma.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreLocked, match=r"chroma\.sqlite3 is locked"), gate(root):
            pass


@on_folder
def test_damaged_gate_folder_is_one_line(root: Path) -> None:
    (root / "gate" / "chroma.sqlite3").write_bytes(b"this is no database" * 100)
    with pytest.raises(StoreDamaged, match="is no database") as caught, gate(root):
        pass
    assert "\n" not in str(caught.value)


@on_folder
@pytest.mark.parametrize("limit", [1000, 20_000, 100_000])
def test_full_disk_is_one_line_and_nothing_is_lost(root: Path, limit: int) -> None:  # T-31
    def fill_up() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = subprocess.run(
        [sys.executable, str(DRIVER), str(root), "promote", "-"],
        preexec_fn=fill_up,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 1, done.stderr
    assert "lessons_loop.filter.errors.Store" in last or "lessons_loop.promote.errors" in last
    change_of(root)
    with gate(root) as session:
        assert len(session.curated) == 2
        assert session.candidates() == []
        assert session.ledger.verify() == []


@on_folder  # on a server the last file is written with the ledger line
@pytest.mark.parametrize("step", ["draft", "ledger", "header"])
def test_disk_that_fills_up_at_step_loses_nothing(root: Path, step: str) -> None:  # T-31
    command = [sys.executable, str(DRIVER), str(root), "promote"]
    full = subprocess.run([*command, f"{step}=700"], capture_output=True, timeout=60, check=False)
    assert full.returncode == 1
    assert b"Store" in full.stderr.strip().splitlines()[-1], full.stderr
    subprocess.run([*command, "-"], capture_output=True, timeout=60, check=True)
    with gate(root) as session:
        assert len(session.curated) == 2
        assert session.candidates() == []
        assert [e.action for e in session.ledger.entries()] == ["init", "promote", "promote"]
        assert session.ledger.verify() == []


def test_session_that_failed_to_store_is_over(root: Path) -> None:
    with gate(root) as session:
        session.fail("disk is full")
        with pytest.raises(StoreError, match="disk is full; run again"):
            session.apply(promotion(session, candidate()))
        assert len(session.ledger.entries()) == 2


@on_folder
def test_read_only_store_is_one_line(root: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "store"
        shutil.copytree(root, copy)
        for path in (Path(folder), copy, *copy.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        done = subprocess.run(
            [sys.executable, "-c", OPEN_AS_NOBODY, str(copy), str(Path(__file__).parent)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        Path(folder).chmod(0o755)
        copy.chmod(0o755)
        for path in copy.rglob("*"):
            if path.is_dir():
                path.chmod(0o755)
    assert done.stdout.startswith("StoreError"), done.stderr
    assert "cannot be used" in done.stdout


OPEN_AS_NOBODY = """
import os, sys
from pathlib import Path
from typing import Any
sys.path.insert(0, sys.argv[2])
import chromadb
from support.gate import gate
from lessons_loop.filter.errors import LessonsError
if os.getuid() == 0:  # root may write anything
    os.setuid(65534)
try:
    with gate(Path(sys.argv[1])):
        pass
except LessonsError as error:
    print(type(error).__name__, error)
"""
