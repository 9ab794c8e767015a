"""Attempts: one per answer and a daily cap, whichever worker asks."""

from __future__ import annotations

import asyncio
import datetime
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessons_loop.filter.alerts import Alerts
from lessons_loop.filter.attempts import Attempts

TODAY = datetime.date(2026, 11, 30)
TAKE = """
import datetime, sys, time
from pathlib import Path
from lessons_loop.filter.alerts import Alerts
from lessons_loop.filter.attempts import Attempts
attempts, day = Attempts(Path(sys.argv[1]), Alerts()), datetime.date(2026, 11, 30)
caps = [int(word) for word in sys.argv[2:4]]
for number in range(20):
    print(attempts.take(f"m{number}", f"u{number % 3}", *caps, day))
    time.sleep(0.005)  # SQLite queues nobody: on a slow disk one would starve
"""


@pytest.fixture
def attempts(tmp_path):
    return Attempts(tmp_path / "lessons" / "attempts.sqlite", Alerts())


def taken_by_three(path, cap, user_cap):
    command = [sys.executable, "-c", TAKE, str(path), str(cap), str(user_cap)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    return [line for worker in workers for line in worker.communicate(timeout=120)[0].splitlines()]


def test_three_workers_ask_about_each_answer_once(attempts):
    said = taken_by_three(attempts.path, 1000, 1000)
    assert said.count("") == 20 and said.count("seen") == 40


@pytest.mark.parametrize(("cap", "user_cap", "most"), [(7, 1000, 7), (1000, 5, 15), (0, 9, 0)])
def test_caps_hold_over_three_workers(attempts, cap, user_cap, most):
    said = taken_by_three(attempts.path, cap, user_cap)
    assert said.count("") == most and len(said) == 60


def test_worker_started_anew_knows_the_answer(attempts):
    assert attempts.take("m", "u", 9, 9) == ""
    assert Attempts(attempts.path, Alerts()).take("m", "u", 9, 9) == "seen"


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=12))
def test_each_day_has_its_own_caps(tmp_path_factory, moves):
    attempts = Attempts(tmp_path_factory.mktemp("a") / "attempts.sqlite", Alerts())
    days = sorted(day for day, _ in moves)
    taken = [
        attempts.take(f"m{n}", f"u{user}", 3, 2, TODAY + datetime.timedelta(day))
        for n, (day, (_, user)) in enumerate(zip(days, moves, strict=True))
    ]
    for day in set(days):
        got = [
            user for d, (_, user), t in zip(days, moves, taken, strict=True) if d == day and not t
        ]
        assert len(got) <= 3 and all(got.count(user) <= 2 for user in got)
        assert got or not days.count(day)


def test_old_attempts_are_dropped(attempts):
    attempts.take("m", "u", 9, 9, TODAY)
    assert attempts.take("m", "u", 9, 9, TODAY + datetime.timedelta(7)) == "seen"
    assert attempts.take("m", "u", 9, 9, TODAY + datetime.timedelta(8)) == ""


def test_only_the_newest_attempts_are_kept(tmp_path):
    attempts = Attempts(tmp_path / "attempts.sqlite", Alerts(), kept=2)
    for message in ("a", "b", "c"):
        assert attempts.take(message, "u", 9, 9) == ""
    assert attempts.take("b", "u", 9, 9) == "seen" and attempts.take("a", "u", 9, 9) == ""


def test_register_names_nobody(attempts):  # T-45
    attempts.take("message-4711", "user-4711", 9, 9)
    assert b"4711" not in attempts.path.read_bytes()
    assert attempts.path.stat().st_mode & 0o077 == 0


def test_unusable_register_leaves_each_worker_its_own_count(attempts, caplog):
    attempts.path.mkdir(parents=True)
    said = [asyncio.run(attempts.refused(f"m{n}", "u", 2, 9)) for n in range(3)]
    assert said == ["", "", "daily-cap"]
    assert caplog.text.count("each worker counts for itself") == 1
