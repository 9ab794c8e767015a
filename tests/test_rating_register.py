"""One thumb is one row a change: repeats, flips, removals, a clock that goes back, processes."""

from __future__ import annotations

import datetime
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.events import Rating
from lessons_loop.filter.rating_register import RatingRegister, rating_stamp
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import StorePaths, staging_session

NOON = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)
WRITER = """
import sys
from pathlib import Path
from lessons_loop.filter.events import Rating, Usage
from lessons_loop.filter.rating_register import RatingRegister
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import StorePaths
paths = StorePaths(Path(sys.argv[1]))
spool = Spool(paths)
register = RatingRegister(paths.ratings, lambda rating: spool.append_rating("sql", rating))
for number in range(20):
    at = f"2026-11-30T12:00:{number:02d}.000000Z"
    register.note(f"f{number}", Rating(message_ref=f"m{number}", at=at, outcome="up"))
    spool.append_usage("sql", Usage(keys=("k",), message_ref=f"m{number}", at=at))
"""
DRAINER = """
import sys
from pathlib import Path
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import StorePaths
spool = Spool(StorePaths(Path(sys.argv[1])))
for _ in range(5):
    spool.drain(seconds=60)
"""


def thumb(outcome: str = "up", seconds: float = 0.0, **changes: object) -> Rating:
    at = rating_stamp(NOON + datetime.timedelta(seconds=seconds))
    fields = {"message_ref": "m", "user_ref": "u", "at": at, "outcome": outcome}
    return Rating.model_validate(fields | changes)


@pytest.fixture
def rows() -> list[Rating]:
    return []


@pytest.fixture
def register(tmp_path: Path, rows: list[Rating]) -> RatingRegister:
    return RatingRegister(tmp_path / "store" / "ratings.sqlite", rows.append)


def test_repeats_leave_one_row(register, rows):
    told = [register.note("f", thumb("up", n)) for n in range(4)]
    assert told == [True, False, False, False]
    assert [row.outcome for row in rows] == ["up"]


def test_every_change_is_a_row(register, rows):
    changes = [
        thumb("up"),
        thumb("down", 1),
        thumb("down", 2, reason="too_verbose"),
        thumb("down", 3, reason="too_verbose", keys=("0a1b2c3d",)),
        thumb("none", 4),
        thumb("none", 5),
    ]
    for change in changes:
        register.note("f", change)
    assert rows == changes[:-1]
    assert len({row.id for row in rows}) == 5


def test_newest_has_the_latest_time_whatever_the_clock_does(register, rows):
    for outcome, seconds in (("up", 0.0), ("down", -3600.0), ("up", -3600.0)):
        register.note("f", thumb(outcome, seconds))
    assert [row.outcome for row in sorted(rows, key=lambda row: row.at)] == ["up", "down", "up"]


def test_deleted_feedback_counts_no_more(register, rows):
    register.note("f", thumb("up", reason="other"))
    assert register.take_back("f", thumb(seconds=9).at) == 1
    assert (rows[-1].outcome, rows[-1].message_ref, rows[-1].reason) == ("none", "m", "")
    assert register.take_back("f", thumb(seconds=10).at) == 0
    assert len(rows) == 2


def test_deleting_what_nobody_noted_is_nothing(register, rows):
    register.take_back("f", thumb().at)
    register.note("g", thumb("none"))
    assert rows == []


@pytest.mark.parametrize(("whose", "left"), [("u1", {"u2"}), ("", set())])
def test_all_of_a_user_or_of_everybody_is_taken_back(register, rows, whose, left):
    for number in range(4):
        register.note(f"f{number}", thumb(message_ref=f"m{number}", user_ref=f"u{number % 2 + 1}"))
    register.take_back_all(whose, thumb(seconds=9).at)
    newest = {row.message_ref: row for row in sorted(rows, key=lambda row: row.at)}
    assert {row.user_ref for row in newest.values() if row.outcome == "up"} == left


def test_what_was_not_appended_is_not_noted(tmp_path, rows):
    def full(_rating: Rating) -> None:
        raise StoreError("the spool is full")

    path = tmp_path / "ratings.sqlite"
    with pytest.raises(StoreError):
        RatingRegister(path, full).note("f", thumb())
    assert RatingRegister(path, rows.append).note("f", thumb())
    assert len(rows) == 1


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be read as one" * 9])
def test_damaged_register_is_told(register, content):
    register.path.parent.mkdir()
    register.path.write_bytes(content)
    with pytest.raises(Exception, match=r"ratings\.sqlite cannot be used.*delete it"):
        register.note("f", thumb())


def test_forgotten_users_and_chats_leave_no_byte(register, rows):
    assert register.forget(["a" * 64]) == 0 and not register.path.exists()
    for number, (user, chat) in enumerate([("a", "c"), ("b", "c"), ("b", "d")]):
        register.note(f"f{number}", thumb(user_ref=user * 64, chat_ref=chat * 64))
    assert register.forget(["a" * 64]) == 1
    assert b"a" * 64 not in register.path.read_bytes()
    assert register.forget(["c" * 64, ""]) == 1
    assert register.take_back_all("", thumb(seconds=9).at) == 1
    assert rows[-1].chat_ref == "d" * 64


def test_register_is_private(register):
    register.note("f", thumb())
    assert stat.S_IMODE(register.path.stat().st_mode) == 0o600


def test_processes_neither_lose_nor_double(tmp_path):
    programs = [WRITER, WRITER, WRITER, DRAINER, DRAINER]
    running = [subprocess.Popen([sys.executable, "-c", one, str(tmp_path)]) for one in programs]
    assert [child.wait(200) for child in running] == [0] * 5
    paths = StorePaths(tmp_path)
    Spool(paths).drain(seconds=60)
    with staging_session(paths) as client:
        found = client.get_collection("sql-lessons-events", embedding_function=None).get()
    kinds = [str(meta["type"]) for meta in found["metadatas"]]
    assert (kinds.count("rating"), kinds.count("used"), len(kinds)) == (20, 20, 40)
    assert not list(paths.spool.glob("*"))
