"""What an installation of a size needs: from the measured lines to limits and settings, pure.

Every chat is taken to be given lessons and to leave one use: most leave less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from lessons_loop.deploy.bench.figures import Figure
from lessons_loop.deploy.bench.scale_fit import series_of
from lessons_loop.filter.spool import SPOOL_LIMIT
from lessons_loop.promote.snapshot.files import KEEP_DAYS, KEEP_LAST, KEEP_MOST

LESSONS = (1_000, 10_000, 100_000)
CHATS = (1_000, 100_000)
ROOM = 1.5
"""Limits stand above what was measured by this factor."""
STEP = 256
"""Mi; limits are whole multiples."""
PODS = 10
"""Pods of Open WebUI, each with a spool of its own."""
RATED = 0.02
"""Share of the answers that get a thumb and stay in the register; a guess."""
HOURS = {"weekly": 168, "daily": 24, "hourly": 1}
CRON = {"weekly": "`0 3 * * 0`", "daily": "`0 3 * * *`", "hourly": "`7 * * * *`"}


class Setup(NamedTuple):
    """A size, and the settings that go with it."""

    lessons: int
    chats: int
    """An hour."""
    schedule: str
    share: int
    """LESSONS_USAGE_SHARE, percent."""
    keep: int
    """LESSONS_KEEP_USES."""

    @property
    def title(self) -> str:
        """Return the size in words."""
        return f"{self.lessons:,} lessons, {self.chats:,} chats/h"

    @property
    def staged(self) -> int:
        """Return the events of one run."""
        return round(self.chats * HOURS[self.schedule] * self.share / 100)

    def remembered(self, months: float = 12.0) -> int:
        """Return the uses in the register after so long: the kept ones and all rated ones."""
        return self.keep + round(self.chats * 720 * months * self.share / 100 * RATED)


SETUPS = (
    Setup(1_000, 1_000, "daily", 100, 50_000),
    Setup(10_000, 1_000, "daily", 100, 50_000),
    Setup(10_000, 100_000, "daily", 2, 50_000),
    Setup(100_000, 100_000, "daily", 2, 50_000),
)


class Measured:
    """The kept figures, asked for what a size costs."""

    def __init__(self, figures: Sequence[Figure]) -> None:
        self.series = series_of(figures)
        self.single = {figure.name: figure.median for figure in figures}

    @property
    def rate(self) -> float:
        """Rows a second one worker moves to a server."""
        return self.single["rows moved in all"]

    def cores(self, chats: float) -> float:
        """Return the cores that hooks and draining keep busy, over all workers."""
        each = self.single["CPU of a chat, its event spooled"] + self.single["CPU of a row moved"]
        return chats / 3600 * each / 1000

    def staging(self, events: float) -> float:
        """Return MB of disk."""
        return self.series["staging disk, events"].line().at(events)

    def register(self, uses: float) -> float:
        """Return MB of disk."""
        return self.series["register, events"].line().at(uses)

    def index(self, events: float) -> float:
        """Return MB that stay in Chroma's index after rows were deleted."""
        return max(0.0, self.series["index left after the fold, events"].line().slope) * events

    def fold_seconds(self, events: float) -> float:
        """Return how long one fold takes."""
        return self.series["fold, events"].line().at(events)

    def fold_memory(self, events: float) -> float:
        """Return MB of the gate."""
        return self.series["fold memory, events"].line().at(events)

    def hours_to_full(self, chats: float) -> float:
        """Return hours until the spools of PODS pods are full."""
        return SPOOL_LIMIT * PODS / chats

    def gate(self, setup: Setup) -> float:
        """Return MB of a gate: lessons, the events of one run, the register in a snapshot."""
        base = self.series["gate memory, lessons"].at(setup.lessons)
        events = self.series["fold memory, events"].line().slope * setup.staged
        slope = self.series["memory of that snapshot, events"].line().slope
        return base + max(0.0, events) + max(0.0, slope) * setup.remembered()

    def snapshots(self, setup: Setup) -> float:
        """Return MB of all snapshots that are kept."""
        each = self.series["snapshot file, lessons"].at(setup.lessons)
        slope = self.series["its file, events"].line().slope
        each += max(0.0, slope) * (setup.remembered() + setup.staged)
        kept = {"weekly": KEEP_LAST, "daily": KEEP_DAYS + 1, "hourly": KEEP_MOST}
        return each * kept[setup.schedule]

    def chroma(self, setup: Setup) -> float:
        """Return MB of Chroma: lessons, what is staged, a year's leftovers in its index."""
        line = self.series["Chroma memory while staged, events"].line()
        staged = max(0.0, line.slope) * setup.staged
        left = self.index(setup.chats * setup.share / 100 * 8_760)
        return self.series["Chroma memory, lessons"].at(setup.lessons) + staged + left


def needs(measured: Measured, setup: Setup) -> dict[str, str]:
    """Return settings and limits of a size, in words."""
    run = measured.fold_seconds(setup.staged)
    disk = measured.series["Chroma disk, lessons"].at(setup.lessons)
    disk += measured.staging(2 * setup.staged)
    disk += measured.index(setup.chats * setup.share / 100 * 8_760)
    state = measured.register(setup.remembered()) + measured.snapshots(setup)
    return {
        "CronJob `schedule`": f"{setup.schedule}, {CRON[setup.schedule]}",
        "`LESSONS_USAGE_SHARE` (Open WebUI)": f"{setup.share}" if setup.share < 100 else "unset",
        "`LESSONS_KEEP_USES` (gate)": f"{setup.keep:,}",
        "events of a run": f"{setup.staged:,}, folded in {max(1, math.ceil(run))} s",
        "gate, memory limit": limit(measured.gate(setup)),
        "Chroma, memory limit": limit(measured.chroma(setup)),
        "Chroma, volume": volume(disk),
        "state, volume": volume(state),
        "a worker, memory on top": f"{worker_memory(measured, setup.lessons)} Mi",
    }


def worker_memory(measured: Measured, lessons: int) -> int:
    """Return MB on top of Open WebUI's own, while a change is read too."""
    name = "worker peak while a change is read, server, lessons"
    return 10 * math.ceil(measured.series[name].at(lessons) / 10)


def limit(megabytes: float) -> str:
    """Return a limit with room above what is needed."""
    return f"{STEP * math.ceil(ROOM * megabytes / STEP):,} Mi"


def volume(megabytes: float) -> str:
    """Return a volume's size: at least 2 Gi, half of it free."""
    return f"{max(2, math.ceil(2 * megabytes / 1024))} Gi"
