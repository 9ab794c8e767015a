"""A state directory that is a cluster's volume: its top folder is root's, not all in it is ours."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from lessons_loop.promote.runs.pause import set_pause
from support.commands import told
from support.gate import flags, on_server

ROOT = os.geteuid() == 0
POWERLESS = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if ROOT else []
"""Root may chmod and read whatever it likes; a container without capabilities may not."""
SOMEBODY = 12345


def volume(path: Path) -> Path:
    """Make what kubelet mounts with fsGroup: another's folder, ours through the group."""
    (path / "lost+found").mkdir(parents=True)
    (path / "lost+found").chmod(0o700)
    if ROOT:
        os.chown(path / "lost+found", SOMEBODY, SOMEBODY)
        os.chown(path, SOMEBODY, os.getegid())
    path.chmod(0o2775)
    return path


def lessons(root: Path, *words: str, salt: str = "") -> subprocess.CompletedProcess[str]:
    call = [*POWERLESS, sys.executable, "-m", "lessons_loop.deploy.cli", *words, *flags(root)]
    environ = {"PATH": os.environ["PATH"], "HOME": str(root), "LESSONS_SALT": salt}
    return subprocess.run(call, capture_output=True, text=True, env=environ, timeout=250)


@on_server
def test_gate_works_on_a_clusters_volume(root: Path) -> None:
    state = volume(root / "state")
    for words in (
        ["init", "--unattended", "--domain", "sql"],
        ["promote", "--unattended", "--demote-stale"],  # a preview: copies the state
        ["snapshot", "create", "--reason", "before"],
        ["forget", "--user", "user-1"],
    ):
        done = lessons(root, *words)
        assert done.returncode == 0, (words, done.stderr)
    mode = stat.S_IMODE(state.stat().st_mode)
    assert not ROOT or mode == 0o2775  # another mode makes kubelet walk the volume at each start
    written = [path for path in state.iterdir() if path.name != "lost+found"]
    assert written and not [path for path in written if path.stat().st_mode & 0o077]


@on_server
def test_given_salt_is_not_printed_and_not_written(root: Path) -> None:
    salt = "5a17" * 16
    done = lessons(root, "init", "--unattended", "--domain", "sql", salt=salt)
    assert done.returncode == 0, done.stderr
    assert salt not in done.stdout + done.stderr and "LESSONS_SALT" not in done.stdout
    assert not [path for path in (root / "state").iterdir() if path.name == "salt"]


@on_server
def test_paused_gate_lets_its_init_container_pass(root: Path) -> None:
    set_pause(root / "state", "alex", "store moves", datetime(2026, 11, 1, tzinfo=UTC))
    done = lessons(root, "init", "--unattended", "--domain", "sql")
    assert (done.returncode, told(done.stderr)) == (0, "")
    assert "the gate is paused by alex" in done.stdout
    assert [path.name for path in (root / "state").iterdir()] == ["paused"]
