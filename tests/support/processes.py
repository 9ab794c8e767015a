"""Processes seen from outside: whether they live, and whether something holds soon."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def soon(holds: Callable[[], object], seconds: float = 60.0) -> bool:
    """Return whether something holds within so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.05)
    return False


def alive(pid: int) -> bool:
    """Return whether a process runs; one that nobody waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
