from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lessons_loop.deploy.processes import (
    OWN_PORTS,
    Child,
    StartError,
    free_port,
    port_is_free,
    start,
    stopping,
    wait_for_exit,
    wait_for_url,
)
from support.processes import alive, soon

SPAWNER = (
    "import subprocess, sys, time;"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)']);"
    "print(child.pid, flush=True); time.sleep(300)"
)


def run(code: str, folder: Path) -> Child:
    command = [sys.executable, "-c", code]
    return start("trial", command, folder / "trial.log", os.environ, folder)


def test_stop_ends_grandchildren_too(tmp_path: Path) -> None:
    child = run(SPAWNER, tmp_path)
    assert soon(lambda: child.log.read_text().strip())
    grandchild = int(child.log.read_text())
    child.stop()
    assert child.ended() is not None
    assert soon(lambda: not alive(grandchild))


def test_stop_forces_a_deaf_process(tmp_path: Path) -> None:
    deaf = (
        "import signal, time; signal.signal(15, signal.SIG_IGN);"
        "print('up', flush=True); time.sleep(60)"
    )
    child = run(deaf, tmp_path)
    assert soon(lambda: "up" in child.log.read_text())
    child.stop(seconds=0.3)
    assert child.ended() == -signal.SIGKILL


def test_stop_twice_is_harmless(tmp_path: Path) -> None:
    child = run("pass", tmp_path)
    child.stop()
    child.stop()
    assert child.ended() is not None


def test_children_end_with_a_killed_parent(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys, time;"
        "from lessons_loop.deploy.processes import start;"
        "folder = pathlib.Path(sys.argv[1]);"
        "child = start('trial', [sys.executable, '-c', 'import time; time.sleep(300)'],"
        " folder / 'log', os.environ, folder);"
        "print(child.pid, flush=True); time.sleep(300)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.kill()
    assert soon(lambda: not alive(pid))


def test_block_that_fails_stops_children(tmp_path: Path) -> None:
    children: list[Child] = []
    with pytest.raises(RuntimeError), stopping(children):
        children.append(run("import time; time.sleep(60)", tmp_path))
        raise RuntimeError
    assert children[0].ended() is not None


def test_waiting_notices_an_early_end(tmp_path: Path) -> None:
    child = run("import sys; print('no such database'); sys.exit(3)", tmp_path)
    began = time.monotonic()
    with pytest.raises(StartError, match=r"trial ended with code 3: no such database \(log: "):
        wait_for_url(child, f"http://127.0.0.1:{free_port()}/ready", 60)
    assert time.monotonic() - began < 20


def test_waiting_for_a_silent_process_is_bounded(tmp_path: Path) -> None:
    child = run("print('starting', flush=True); import time; time.sleep(300)", tmp_path)
    with stopping([child]):
        assert soon(lambda: "starting" in child.log.read_text())
        with pytest.raises(StartError, match="not ready after 1 s: starting"):
            wait_for_url(child, f"http://127.0.0.1:{free_port()}/ready", 1)


def test_failed_command_is_reported_by_its_last_line(tmp_path: Path) -> None:
    child = run("import sys; print('lessons: broken store'); sys.exit(1)", tmp_path)
    with pytest.raises(StartError, match=r"^lessons: broken store \(trial ended with code 1\)"):
        wait_for_exit(child, 60)


def test_missing_program_is_a_start_error(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="trial cannot be started"):
        start("trial", ["true"], tmp_path / "log", os.environ, tmp_path / "nowhere")


def test_free_port_is_none_the_kernel_gives_away() -> None:
    assert {free_port() in OWN_PORTS for _ in range(20)} == {True}


def test_taken_port_is_noticed() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert not port_is_free(taken.getsockname()[1])
    assert port_is_free(free_port())
