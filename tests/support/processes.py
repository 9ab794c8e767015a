"""What is seen from outside: whether processes live, and whether something holds soon."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def soon(holds: Callable[[], Any], seconds: float = 60.0, pause: float = 0.5) -> Any:
    """Return the first true value of `holds()`; fail after so many seconds.

    Asked often at first, then every `pause` seconds. The limit is for what never comes: a busy
    machine takes many times what an idle one does.
    """
    deadline, wait = time.monotonic() + seconds, min(0.05, pause)
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s"
        time.sleep(wait)
        wait = min(pause, 1.5 * wait)
    return found


def alive(pid: int) -> bool:
    """Return whether a process runs; one that nobody waited for does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
