"""Run the gate at its times in the foreground, for containers: no timer of the host's.

Covered: summer time, a clock that is set, SIGTERM in the middle of a run (handed on).
Not covered: a time missed while this was not running; run the gate by hand then.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from lessons_loop.deploy.schedule.timer import DAYS, When

LOOK_SECONDS = 60.0
"""The longest sleep: a clock that is set is noticed."""
END_SECONDS = 45.0
"""A run told to end finishes the write it is at."""


def next_due(when: When, now: datetime) -> datetime:
    """Return the first time after `now`, in UTC; a time that summer time skips comes later."""
    zone: tzinfo | None = ZoneInfo(when.zone) if when.zone else None
    local = now.astimezone(zone)
    for ahead in range(9):
        day = (local + timedelta(days=ahead)).date()
        if when.day and DAYS[day.weekday()] != when.day:
            continue
        naive = datetime(day.year, day.month, day.day, when.hour, when.minute)
        due = (naive.replace(tzinfo=zone) if zone else naive).astimezone(UTC)
        if due > now:
            return due
    raise AssertionError("every week has each day")


def wait_until(
    due: datetime, now: Callable[[], datetime], sleep: Callable[[float], object]
) -> None:
    """Return when it is due."""
    while (left := (due - now()).total_seconds()) > 0:
        sleep(min(left, LOOK_SECONDS))


def run_each(commands: Sequence[Sequence[str]]) -> Iterator[int]:
    """Run commands one after the other and yield their exit codes; a failed one ends it."""
    for words in commands:
        with _ended_with_us(subprocess.Popen(list(words), stdin=subprocess.DEVNULL)) as running:
            code = running.wait()
        yield code
        if code:
            return


@contextmanager
def _ended_with_us(running: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """End a command politely where the block is left early."""
    try:
        yield running
    finally:
        if running.poll() is None:
            running.terminate()
            try:
                running.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
