from __future__ import annotations

import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.deploy.schedule.run_command import keep_running
from lessons_loop.deploy.schedule.timer import DAYS, When, parse_when
from lessons_loop.deploy.schedule.wait import next_due, run_each
from support.commands import run_here
from support.processes import soon

SUNDAY = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("at", "zone", "now", "due"),
    [
        ("Sun 03:00", "Etc/UTC", "2026-11-29T02:59:59", "2026-11-29T03:00"),
        ("Sun 03:00", "Etc/UTC", "2026-11-29T03:00:00", "2026-12-06T03:00"),
        ("Sun 03:00", "Europe/Berlin", "2026-11-28T12:00:00", "2026-11-29T02:00"),
        ("03:00", "Etc/UTC", "2026-12-31T23:00:00", "2027-01-01T03:00"),
        ("Sun 02:30", "Europe/Berlin", "2026-03-28T12:00:00", "2026-03-29T01:30"),  # skipped
        ("Sun 02:30", "Europe/Berlin", "2026-10-24T12:00:00", "2026-10-25T00:30"),  # twice: first
    ],
)
def test_next_time_is_the_right_one(at: str, zone: str, now: str, due: str) -> None:
    found = next_due(parse_when(at, zone), datetime.fromisoformat(now + "+00:00"))
    assert found.strftime("%Y-%m-%dT%H:%M") == due


zones = st.sampled_from(["", "Etc/UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia"])


@given(
    st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC)),
    st.sampled_from(("", *DAYS)),
    st.integers(0, 23),
    st.integers(0, 59),
    zones,
)
def test_next_time_is_within_its_period(
    now: datetime, day: str, hour: int, minute: int, zone: str
) -> None:
    due = next_due(When(day, hour, minute, zone), now)
    assert now < due <= now + timedelta(days=8 if day else 1, hours=2)


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


def test_failed_run_is_told_and_tried_again(tmp_path: Path) -> None:
    note, told = tmp_path / "ran", []
    program = f"open({str(note)!r}, 'a').write('x'); raise SystemExit(1)"
    clock = Clock(SUNDAY - timedelta(hours=1))
    keep_running(
        parse_when("Sun 03:00", "Etc/UTC"),
        [[sys.executable, "-c", program], [sys.executable, "-c", "never"]],
        told.append,
        clock.now,
        clock.sleep,
        rounds=2,
    )
    assert note.read_text() == "xx" and clock.at == SUNDAY + timedelta(days=7)
    assert [one for one in told if "ran" in one] == [{"ran": 1, "of": 2, "exit": 1}] * 2


def test_domains_run_one_after_another(tmp_path: Path) -> None:
    note = tmp_path / "ran"
    programs = [f"open({str(note)!r}, 'a').write({name!r})" for name in "ab"]
    assert list(run_each([[sys.executable, "-c", one] for one in programs])) == [0, 0]
    assert note.read_text() == "ab"


def start(*words: str, cwd: Path) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "lessons_loop.deploy.cli", "schedule", "run", *words]
    pipe: Any = subprocess.PIPE
    return subprocess.Popen(line, stdout=pipe, stderr=pipe, text=True, cwd=cwd)


def test_waiting_ends_on_sigterm(tmp_path: Path) -> None:
    running = start("--store", str(tmp_path), "--tz", "Etc/UTC", "--json", cwd=tmp_path)
    assert running.stdout and '"next"' in running.stdout.readline()
    running.send_signal(signal.SIGTERM)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (143, "", "")


def test_run_is_ended_with_us(tmp_path: Path) -> None:  # an eviction in the middle of a run
    note = tmp_path / "told"
    program = (
        "import signal, sys, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: (open({str(note)!r}, 'w').write('told'),"
        " sys.exit()))\ntime.sleep(1)\nprint('up', flush=True)\ntime.sleep(300)\n"
    )
    code = (
        "import sys\nfrom lessons_loop.deploy.schedule.wait import run_each\n"
        f"list(run_each([[sys.executable, '-c', {program!r}]]))"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert running.stdout and running.stdout.readline() == "up\n"  # a second after it began
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert soon(note.exists)


@pytest.mark.parametrize(
    "words", [("--at", "Sunday at noon"), ("--tz", "Nowhere/Land"), ("--", "--review", "human")]
)
def test_unusable_times_are_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = run_here("schedule", "run", "--store", str(tmp_path), *words)
    assert done.code in (1, 2) and len(done.err.splitlines()) == 1
