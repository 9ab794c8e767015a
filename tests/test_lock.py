from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lessons_loop.promote.errors import LockHeld
from lessons_loop.promote.store.lock import borrowed_lock, command_name, gate_lock
from support.gate import gate

HOLD = """
import sys, pathlib
from lessons_loop.promote.store.lock import gate_lock
with gate_lock(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    path = tmp_path / "gate.lock"
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None and child.stdout.readline() == "held\n"
    yield child
    child.kill()
    child.communicate()


def test_second_gate_fails_at_once_and_names_holder(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    started = time.monotonic()
    with pytest.raises(LockHeld, match=rf"pid {holder.pid} on .+, since 20"), gate(tmp_path):
        pass
    assert time.monotonic() - started < 60


def test_lock_ends_with_its_killed_holder(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    assert "pid" in (tmp_path / "gate.lock").read_text()
    with gate_lock(tmp_path / "gate.lock"):
        pass
    assert (tmp_path / "gate.lock").read_text() == ""


def test_borrowed_lock_refuses_and_writes_nothing(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    note = (tmp_path / "gate.lock").read_bytes()
    with pytest.raises(LockHeld, match="pid"), borrowed_lock(tmp_path / "gate.lock"):
        pass
    assert (tmp_path / "gate.lock").read_bytes() == note


def test_unreadable_note_is_no_trouble(tmp_path: Path) -> None:
    path = tmp_path / "gate.lock"
    path.write_text("not json")
    with gate_lock(path), pytest.raises(LockHeld), gate_lock(path):
        pass


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["/usr/bin/lessons", "promote", "--llm-api-key", "sk-FAKE"], "lessons promote"),
        (["lessons", "--llm-api-key=sk-FAKE"], "lessons"),
        ([], "''"),
    ],
)
def test_note_holds_no_arguments(argv: list[str], shown: str) -> None:  # T-47
    assert command_name(argv) == shown
