"""Actions of `gate_driver.py` in a child that has everything imported, and may die at a step.

    assert drive(root, "promote", "ledger") == CRASH
    assert drive(root, "promote") == 0

A fresh interpreter takes three seconds to import Chroma; this one is forked from a server that
has it, one per test process.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing.context import ForkServerContext
from pathlib import Path

from support.gate_driver import CRASH
from support.gate_driver import main as act

DRIVE_SECONDS = 120.0
PRELOAD = ["chromadb.api.rust", "lessons_loop.deploy.cli", "support.gate_driver"]


def drive(root: Path, action: str, step: str = "-") -> int:
    """Carry an action out and return the exit code; it fails with anything but 0 or CRASH."""
    told = root.with_name(f"{root.name}.told")
    child = _context().Process(target=_acted, args=(str(root), action, step, str(told)))
    child.start()
    child.join(DRIVE_SECONDS)
    ended = child.exitcode
    child.kill()
    child.join()
    assert ended in (0, CRASH), told.read_text("utf-8", "replace") if told.exists() else ended
    return ended


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    return context


def _acted(root: str, action: str, step: str, told: str) -> None:
    handle = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream in (1, 2):
        os.dup2(handle, stream)
    sys.argv = ["gate_driver", root, action, step]
    act()
