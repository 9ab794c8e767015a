"""Answers under way: one worker has each, a living one keeps it, a dead one's is taken up once."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.alerts import Alerts
from lessons_loop.filter.attempts import Attempts
from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.unfinished import (
    LIFE_SECONDS,
    TAKES_MOST,
    UNFINISHED_KEPT,
    UNFINISHED_SECONDS,
    Signs,
    Unfinished,
    UnfinishedAnswer,
)
from support.processes import soon

AT = "2026-11-30T12:00:00Z"
TAKE = """
import sys
from pathlib import Path
from lessons_loop.filter.unfinished import Signs, Unfinished

class Named(Signs):  # the others are alive, however long one of them is held up
    def dead(self, beats, now):
        return {name: beat for name, beat in beats.items() if name == "dead"}

register = Unfinished(Path(sys.argv[1]), sys.argv[2], Named())
while taken := register.take("p", 7).answers:
    print(*(answer.message for answer in taken))
    register.close([answer.message for answer in taken])
"""
NOTE = """
import sys
from pathlib import Path
from lessons_loop.filter.unfinished import Unfinished, UnfinishedAnswer
row = UnfinishedAnswer("m", "c", "p", "sql", "stop", "{}", "[]", "u", "r", "t")
register = Unfinished(Path(sys.argv[1]), "victim")
print(register.note([row]), flush=True)
for word in sys.stdin:
    register.give_sign()
    print("alive", flush=True)
"""


def answer(message: str = "m", plugin: str = "p", user: str = "u-ref", chat: str = "c-ref"):
    return UnfinishedAnswer(message, "c", plugin, "sql", "stop", "{}", "[]", user, chat, AT)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lessons" / "attempts.sqlite"


def at_once(path: Path, owner: str = "other") -> Unfinished:
    """A worker that takes every other one for dead at first sight."""
    return Unfinished(path, owner, Signs(0.0))


def messages(register: Unfinished, most: int = 99) -> list[str]:
    return [one.message for one in register.take("p", most).answers]


def test_answer_is_noted_by_one_worker(path):
    first, second = Unfinished(path, "a"), Unfinished(path, "b")
    assert first.note([answer("m1"), answer("m2")]) == {"m1", "m2"}
    assert second.note([answer("m2"), answer("m3")]) == {"m3"}
    assert first.holds("m2") and not second.holds("m2")


def test_answer_asked_about_before_is_not_noted(path):
    assert Attempts(path, Alerts()).take("m", "u", 9, 9) == ""
    assert Unfinished(path, "a").note([answer()]) == set()


def test_dead_workers_answers_are_shared_out_once(path):  # T-40
    wanted = {f"m{n}" for n in range(40)}
    Unfinished(path, "dead").note([answer(message) for message in wanted])
    command = [sys.executable, "-c", TAKE, str(path)]
    workers = [
        subprocess.Popen([*command, f"w{n}"], stdout=subprocess.PIPE, text=True) for n in range(3)
    ]
    taken = [m for worker in workers for m in worker.communicate(timeout=120)[0].split()]
    assert sorted(taken) == sorted(wanted) and at_once(path).take("p", 99).answers == ()


def test_killed_process_is_told_from_a_living_one(path):
    """Each look follows a sign: a busy machine may hold either process up for seconds."""
    other, pipe = Unfinished(path, "other", Signs(1.5)), subprocess.PIPE
    command = [sys.executable, "-c", NOTE, str(path)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as victim:
        assert victim.stdin and victim.stdout and victim.stdout.readline() == "{'m'}\n"
        until = time.monotonic() + 3
        while time.monotonic() < until:
            victim.stdin.write("a sign\n")
            victim.stdin.flush()
            assert victim.stdout.readline() == "alive\n" and messages(other) == []
            time.sleep(0.1)
        os.kill(victim.pid, signal.SIGKILL)
    found: list[str] = []
    assert soon(lambda: found.extend(messages(other)) or found)
    assert found == ["m"] and messages(at_once(path, "third")) == ["m"]


@given(st.lists(st.floats(0.1, LIFE_SECONDS - 0.1), min_size=1, max_size=30), st.integers(0, 3))
def test_worker_that_gives_signs_is_never_dead(pauses, looks):
    signs, now = Signs(), 0.0
    for beat, pause in enumerate(pauses):
        for look in range(looks + 1):
            assert signs.dead({"a": beat}, now + pause * look / (looks + 1)) == {}
        now += pause


@given(st.integers(0, 9), st.lists(st.floats(0.1, 20), min_size=1, max_size=30))
def test_worker_without_signs_is_dead_after_its_time(beat, pauses):
    signs, now = Signs(), 0.0
    signs.dead({"a": beat}, now)
    for pause in pauses:
        now += pause
        assert signs.dead({"a": beat}, now) == ({"a": beat} if now >= LIFE_SECONDS else {})


@given(st.floats(LIFE_SECONDS * 0.7, 10_000), st.floats(0, 10))
def test_worker_that_could_not_look_counts_nobody_as_dead(gap, before):
    signs = Signs()
    signs.dead({"a": 1}, 100.0)
    signs.dead({"a": 1}, 100.0 + before)
    now = 100.0 + before + gap
    assert signs.dead({"a": 1}, now) == {}
    for look in (20.0, 40.0):
        assert signs.dead({"a": 1}, now + look) == {}
    assert signs.dead({"a": 1}, now + LIFE_SECONDS + 0.1) == {"a": 1}


@pytest.mark.parametrize("step", [-UNFINISHED_SECONDS / 2, -60.0, 60.0, UNFINISHED_SECONDS / 2])
def test_clock_step_takes_no_living_workers_answer(path, step):
    now = time.time()
    Unfinished(path, "living").note([answer()], now)
    other = Unfinished(path, "other")
    assert other.take("p", 9, now + step) == ((), {})
    assert at_once(path).take("p", 9, now + step).answers == (answer(),)


@pytest.mark.parametrize("age", [UNFINISHED_SECONDS + 1, -UNFINISHED_SECONDS - 1])
def test_answer_of_another_day_is_dropped_and_counted(path, age):
    now = time.time()
    Unfinished(path, "dead").note([answer()], now - age)
    assert at_once(path).take("p", 9, now) == ((), {"lost:old": 1})
    assert at_once(path).take("p", 9, now) == ((), {})


def test_worker_that_came_back_keeps_its_answers(path):
    back, other = Unfinished(path, "back"), Unfinished(path, "other", Signs(0.0))
    back.note([answer()])
    seen = other.signs.dead({"back": 0}, 0.0)
    back.give_sign()
    with other._writing() as found:
        assert list(other._free(found, seen, "p")) == []


def test_answer_that_stood_back_is_taken_at_once(path):
    first, other = Unfinished(path, "first"), Unfinished(path, "other")
    first.note([answer("m1"), answer("m2")])
    first.give_sign(stood_back=["m1"])
    assert messages(other) == ["m1"] and not first.holds("m1") and first.holds("m2")


def test_answer_that_kills_workers_is_given_up(path):
    Unfinished(path, "w0").note([answer()])
    takers = [at_once(path, f"w{n}") for n in range(1, TAKES_MOST + 2)]
    assert [len(taker.take("p", 9).answers) for taker in takers[:-1]] == [1] * TAKES_MOST
    assert takers[-1].take("p", 9) == ((), {"lost:given-up": 1})
    assert at_once(path).take("p", 9) == ((), {})


def test_answer_is_tried_twice_and_counted_once(path):
    attempts = Attempts(path, Alerts())
    Unfinished(path, "w0").note([answer()])
    assert attempts.take("m", "u", 1, 1, owner="w0") == ""
    assert messages(at_once(path, "w1")) == ["m"]
    assert attempts.take("m", "u", 1, 1, owner="w0") == "seen"
    assert attempts.take("m", "u", 1, 1, owner="w1") == ""  # the cap of one is not asked again
    assert attempts.take("m", "u", 1, 1, owner="w1") == "given-up"
    assert attempts.take("m2", "u", 1, 1) == "daily-cap"


def test_capped_answer_uses_no_attempt(path):
    Unfinished(path, "w").note([answer()])
    assert Attempts(path, Alerts()).take("m", "u", 0, 9, owner="w") == "daily-cap"
    Unfinished(path, "w").close(["m"])
    assert Attempts(path, Alerts()).take("m", "u", 1, 9) == ""


def test_answers_of_another_plugin_are_left_alone(path):
    Unfinished(path, "dead").note([answer(plugin="q")])
    assert at_once(path).take("p", 9).answers == ()
    assert at_once(path).take("q", 9).answers == (answer(plugin="q"),)


def test_no_more_is_taken_than_there_is_room_for(path):
    Unfinished(path, "dead").note([answer(f"m{n}") for n in range(5)])
    other = at_once(path)
    assert [len(other.take("p", 2).answers) for _ in range(4)] == [2, 2, 1, 0]


def test_only_the_newest_answers_are_kept(path):
    rows = [answer(f"m{n}") for n in range(UNFINISHED_KEPT)]
    register = Unfinished(path, "w")
    register.note([answer("oldest")], 1.0)
    register.note(rows, 2.0)
    assert not register.holds("oldest") and register.holds("m0")


def test_forgotten_answers_leave_no_byte(path):  # T-45
    register = Unfinished(path, "w")
    rows = [answer("message-4711", chat="gone"), answer("message-4712", user="gone")]
    register.note([*rows, answer("message-1")])
    assert register.forget(["gone", ""]) == 2
    assert b"message-471" not in path.read_bytes() and register.holds("message-1")
    assert path.stat().st_mode & 0o077 == 0


def test_finished_answers_leave_no_byte(path):
    register = Unfinished(path, "w")
    register.note([answer("message-4711")])
    register.close(["message-4711"])
    assert b"4711" not in path.read_bytes()


def test_nothing_is_made_by_looking(path):
    assert at_once(path).take("p", 9) == ((), {}) and at_once(path).forget(["u"]) == 0
    assert not path.exists()


def test_register_of_an_earlier_release_holds_nothing(path):
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as made:
        made.execute("create table attempts (number integer primary key, message text, day text)")
    assert at_once(path).take("p", 9) == ((), {})


def test_damaged_register_is_named(path):
    path.parent.mkdir()
    path.write_bytes(b"no database at all, and long enough to be looked at" * 99)
    for use in (lambda: at_once(path).take("p", 9), lambda: at_once(path).note([answer()])):
        with pytest.raises(StoreError, match=r"attempts\.sqlite"):
            use()
