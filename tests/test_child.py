"""A child that reads a store never outlives the run it works for."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lessons_loop.filter.errors import StoreLocked
from lessons_loop.filter.store import StorePaths
from support.gate import candidate, gate, stage
from support.processes import alive, soon

HANGING = (
    "import sys; from pathlib import Path\n"
    "from lessons_loop.promote.store.child import run_child\n"
    "folder = Path(sys.argv[1])\n"
    "run_child('store_child', 'dump', (folder, folder.with_name('rows')), folder.parent, 300)\n"
)
"""A run whose child waits for ever: it writes into a pipe nobody reads."""

STUCK = (
    "import re, sys; from lessons_loop.promote.store.child import child_main\n"
    "child_main({'read': lambda: re.match('(a+)+$', 'a' * 60 + 'b')}, ['read', '1'])\n"
)
"""A child in which no other thread ever runs, as with a hung index."""


@pytest.fixture
def staging(tmp_path: Path) -> Path:
    paths = StorePaths(tmp_path / "store")
    stage(paths, [candidate()])
    os.mkfifo(paths.staging.with_name("rows"))
    return paths.staging


def child_at_work(run: subprocess.Popen[bytes]) -> int:
    """Return the pid of the run's child once it has loaded Chroma."""
    children, found = Path(f"/proc/{run.pid}/task/{run.pid}/children"), ""

    def loaded() -> bool:
        nonlocal found
        found = children.read_text().strip()
        return bool(found) and "chromadb" in Path(f"/proc/{found}/maps").read_text()

    assert soon(loaded, 120)
    return int(found)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_child_ends_with_its_killed_parent(staging: Path, how: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", HANGING, str(staging)]) as run:
        child = child_at_work(run)
        run.send_signal(how)
    assert soon(lambda: not alive(child))


def test_child_in_which_nothing_runs_ends_by_its_own_limit() -> None:
    reading, writing = os.pipe()  # the parent lives on
    command = [sys.executable, "-c", STUCK]
    with subprocess.Popen(command, stdin=reading, stderr=subprocess.PIPE, text=True) as child:
        told = child.communicate(timeout=120)[1]
    os.close(reading)
    os.close(writing)
    assert child.returncode == 1 and "Timeout" in told


def test_gate_waits_for_a_database_that_is_free_in_a_moment(tmp_path: Path) -> None:
    with gate(tmp_path):
        pass
    database = StorePaths(tmp_path).gate / "chroma.sqlite3"
    holder = sqlite3.connect(database, isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreLocked, match="locked by another program"), gate(tmp_path):
        pass
    threading.Timer(0.5, holder.close).start()
    with gate(tmp_path) as session:
        assert session.holdings.header.rev >= 0
