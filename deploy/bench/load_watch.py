"""What is watched while the load runs: the machine's CPU, each worker's memory, what waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

EDGE = 5
"""Looks that are averaged at either end: one alone may fall into a burst."""


class Busy(NamedTuple):
    """Ticks of all processors since the machine started."""

    all: int
    idle: int

    def since(self, earlier: Busy) -> float:
        """Return the share of time the processors were busy since an earlier look."""
        passed = self.all - earlier.all
        return 1.0 - (self.idle - earlier.idle) / passed if passed else 0.0


def processors() -> Busy:
    """Look at the processors; waiting for a disk counts as idle."""
    first = Path("/proc/stat").read_text("utf-8").splitlines()[0]
    ticks = [int(value) for value in first.split()[1:9]]
    return Busy(sum(ticks), ticks[3] + ticks[4])


def resident(pid: int) -> float:
    """Return a process's resident memory in MB, 0 when it is gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    except OSError:
        return 0.0
    return 0.0


class Look(NamedTuple):
    """Memory of the workers at one moment."""

    at: float
    megabytes: dict[int, float]


class MemoryWatch:
    """Looks at the workers' memory once a second while it runs."""

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self.pids, self.looks = pids, list[Look]()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look; must be called on a loop."""
        self._task = asyncio.get_running_loop().create_task(self._watch())

    def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        while True:
            sizes = {pid: size for pid in self.pids() if (size := resident(pid))}
            self.looks.append(Look(time.monotonic(), sizes))
            await asyncio.sleep(1.0)

    def growth(self, began: float, ended: float) -> dict[int, float]:
        """Return by how many MB each worker grew that was there all the time."""
        seen = [look.megabytes for look in self.looks if began <= look.at <= ended]
        if not seen:
            return {}
        before = [look.megabytes for look in self.looks if look.at < began][-1:]
        there = set.intersection(*map(set, [*before, *seen]))  # one just started is no growth
        return {
            pid: mean(look[pid] for look in seen[-EDGE:]) - mean(look[pid] for look in seen[:EDGE])
            for pid in sorted(there)
        }


def mean(values: Iterable[float]) -> float:
    """Return the mean, 0 of nothing."""
    found = list(values)
    return sum(found) / len(found) if found else 0.0
