"""Actions of `gate_driver.py` in a child that has everything imported, and may die at a step.

assert drive(root, "promote", "ledger") == CRASH
assert drive(root, "promote") == 0
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from support.forked import ended
from support.gate_driver import CRASH
from support.gate_driver import main as act

DRIVE_SECONDS = 120.0


def drive(root: Path, action: str, step: str = "-") -> int:
    """Carry an action out and return the exit code; it fails with anything but 0 or CRASH."""
    told = root.with_name(f"{root.name}.told")
    code = ended(_acted, str(root), action, step, str(told), seconds=DRIVE_SECONDS)
    assert code in (0, CRASH), told.read_text("utf-8", "replace") if told.exists() else code
    return code


def _acted(root: str, action: str, step: str, told: str) -> None:
    handle = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream in (1, 2):
        os.dup2(handle, stream)
    sys.argv = ["gate_driver", root, action, step]
    act()
