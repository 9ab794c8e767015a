"""The spool: a locked store or a restart costs nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lessons_loop.filter.errors import StoreError, StoreLocked
from lessons_loop.filter.events import Usage
from lessons_loop.filter.models import Candidate, Evidence, Lesson, Record
from lessons_loop.filter.spool import (
    STUCK_SECONDS,
    Spool,
    oldest_spooled,
    read_spooled,
    spool_lock,
    spooled,
    write_spooled,
)
from lessons_loop.filter.store import StorePaths, file_lock, staging_session
from support.spooling import DRAIN, HOLD, NO_DESCRIPTORS, SEND

LESSON = Lesson(domain="sql", text="Use LIMIT.", kind="perf-guard", trigger="big tables")
PROOF = Evidence(kind="tool-success", quote="12 rows in 3 ms", excerpt="[2] 12 rows in 3 ms")


def candidate(number):
    return Candidate(lesson=LESSON, evidence=PROOF, message_ref=f"m{number}", at="2026")


def rows(paths, name):
    with staging_session(paths) as client:
        return client.get_collection(name, embedding_function=None).get()


@pytest.fixture
def spool(tmp_path):
    return Spool(StorePaths(tmp_path / "store"))


def test_drained_records_stand_in_staging(spool):
    spool.append_candidates([candidate(1), candidate(2)])
    spool.append_usage("sql", Usage(keys=("k",), message_ref="m", at="2026"))
    assert spool.waiting() == 3
    assert spool.drain() == 3
    assert spool.waiting() == 0
    assert len(rows(spool.paths, "sql-lessons-candidates")["ids"]) == 2
    assert rows(spool.paths, "sql-lessons-events")["documents"] == ["used"]


def test_what_waits_and_what_is_staged_is_private(spool):
    spool.append_candidates([candidate(1)])
    spool.drain()
    for folder in (spool.paths.spool, spool.paths.staging):
        assert folder.stat().st_mode & 0o077 == 0


def test_locked_store_keeps_the_spool(spool):
    spool.append_candidates([candidate(1)])
    with file_lock(spool.paths.staging_lock, 0), pytest.raises(StoreLocked):
        spool.drain(0.1)
    assert spool.waiting() == 1
    assert spool.drain() == 1


def test_same_sighting_twice_is_one_row(spool):
    for _ in range(2):
        spool.append_candidates([candidate(1)])
    spool.drain()
    assert len(rows(spool.paths, "sql-lessons-candidates")["ids"]) == 1


def test_two_processes_drain_one_spool(spool):
    spool.append_candidates([candidate(n) for n in range(120)])
    command = [sys.executable, "-c", DRAIN, str(spool.paths.root)]
    drainers = [subprocess.Popen(command) for _ in range(2)]
    assert [drainer.wait(250) for drainer in drainers] == [0, 0]
    assert spool.waiting() == 0
    assert len(rows(spool.paths, "sql-lessons-candidates")["ids"]) == 120


@pytest.mark.parametrize("content", ["", "{", "[]", '{"collection": "x"}', '{"record": {"a": 1}}'])
def test_unreadable_file_is_set_aside(spool, content):
    spool.append_candidates([candidate(1)])
    (spool.paths.spool / "0000.json").write_text(content)
    spool.drain()
    assert (spool.paths.spool / "bad" / "0000.json").read_text() == content
    assert len(rows(spool.paths, "sql-lessons-candidates")["ids"]) == 1


def test_half_written_file_is_not_read(spool):
    spool.paths.spool.mkdir(parents=True)
    (spool.paths.spool / ".1-x.1.tmp").write_text("{")
    assert spool.waiting() == 0


def test_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    spool = Spool(StorePaths(tmp_path / "file"))
    with pytest.raises(StoreError, match="spool cannot be written"):
        spool.append_candidates([candidate(1)])


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), min_size=1))
def test_any_text_survives_the_spool(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("spool")
    record = Record("id", text, {"quote": text, "n": 1, "tools": [text]})
    write_spooled(folder, "sql-lessons-candidates", record)
    assert [read_spooled(f) for f in spooled(folder)] == [("sql-lessons-candidates", record)]


@pytest.mark.parametrize(
    ("collection", "record"),
    [
        (5, {}),
        ("sql-lessons", {}),
        ("sql-lessons-archive", {}),
        (["x"], {}),
        ("sql-lessons-events", {"metadata": {"a": {"b": 1}}}),
        ("sql-lessons-events", {"metadata": {"a": []}}),
        ("sql-lessons-events", {"metadata": {"a": None}}),
        ("sql-lessons-events", {"metadata": {"a": 2**70}}),
        ("sql-lessons-events", {"document": None}),
        ("sql-lessons-events", {"id": 7}),
    ],
)
def test_row_that_staging_refuses_holds_up_nobody(spool, collection, record):
    spool.append_candidates([candidate(1)])
    whole = {"id": "x", "document": "used", "metadata": {"a": 1}} | record
    odd = spool.paths.spool / "0000.json"
    odd.write_text(json.dumps({"collection": collection, "record": whole}))
    spool.drain()
    assert spool.waiting() == 0 and (spool.paths.spool / "bad" / odd.name).exists()
    with staging_session(spool.paths) as client:
        assert [c.name for c in client.list_collections()] == ["sql-lessons-candidates"]


def test_folder_among_the_waiting_holds_up_nobody(spool):
    spool.append_candidates([candidate(1)])
    (spool.paths.spool / "0000.json").mkdir()
    spool.drain()
    assert spool.waiting() == 0


def test_record_no_descriptor_was_left_for_stays(spool):
    spool.append_candidates([candidate(n) for n in range(52)])
    command = [sys.executable, "-c", NO_DESCRIPTORS, str(spool.paths.root)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert "Too many open files" in ran.stdout, ran.stderr
    assert spool.waiting() == 2 and not (spool.paths.spool / "bad").exists()


def test_file_two_workers_set_aside_stops_neither(spool):
    spool.append_candidates([candidate(n) for n in range(3)])
    for n in range(200):
        (spool.paths.spool / f"0{n:03d}.json").write_text("{")
    command = [sys.executable, "-c", DRAIN, str(spool.paths.root)]
    drainers = [subprocess.Popen(command) for _ in range(3)]
    assert [drainer.wait(250) for drainer in drainers] == [0, 0, 0]
    assert len(list((spool.paths.spool / "bad").iterdir())) == 200
    assert len(rows(spool.paths, "sql-lessons-candidates")["ids"]) == 3


def test_three_workers_send_each_record_once(spool):
    spool.append_candidates([candidate(n) for n in range(200)])
    command = [sys.executable, "-c", SEND, str(spool.paths.root)]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    sent = [line for one in workers for line in one.communicate(timeout=250)[0].splitlines()]
    assert len(sent) == len(set(sent)) == 200 and spool.waiting() == 0


def test_spool_another_worker_empties_is_left_to_it(spool):
    spool.append_candidates([candidate(1)])
    with file_lock(spool.paths.root / "spool.lock", 1):
        assert spool.drain(0.1) == 0
    assert spool.drain() == 1


def test_spool_is_emptied_where_no_lock_can_be_made(spool):
    spool.append_candidates([candidate(1)])
    (spool.paths.root / "spool.lock").mkdir()
    assert spool.drain() == 1


class ClosingSink:
    """Takes a batch while the store is being changed."""

    def __init__(self):
        self.taken, self.spool = [], None

    def store(self, rows, seconds):
        self.taken += [record for records in rows.values() for record in records]
        self.spool.close()
        return {}

    def close(self):
        pass


def test_closed_spool_leaves_the_rest_to_the_next(tmp_path):
    sink = ClosingSink()
    sink.spool = Spool(StorePaths(tmp_path), sink)
    sink.spool.append_candidates([candidate(n) for n in range(120)])
    assert sink.spool.drain() == len(sink.taken) == 50
    assert sink.spool.waiting() == 70 and Spool(StorePaths(tmp_path)).drain() == 70


@contextmanager
def hanging_worker(spool):
    """Another process that holds the spool's lock and does nothing."""
    command = [sys.executable, "-c", HOLD, str(spool_lock(spool.paths))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stdout.readline() == "held\n"
            yield worker
        finally:
            worker.kill()


def age(spool, seconds):
    """Let all that waits have been spooled so long ago."""
    for file in spooled(spool.paths.spool):
        os.utime(file, (time.time() - seconds,) * 2)


def test_worker_that_hangs_is_told_once_a_record_waits_long(spool):
    spool.append_candidates([candidate(1)])
    with hanging_worker(spool):
        assert spool.drain(0.1) == 0
        age(spool, STUCK_SECONDS + 90)
        with pytest.raises(StoreLocked, match=r"spool.lock is held .* waits for 1[12] minutes"):
            spool.drain(0.1)
    assert spool.waiting() == 1


def test_killed_holder_frees_the_spool_at_once(spool):
    spool.append_candidates([candidate(1)])
    age(spool, STUCK_SECONDS + 90)
    with hanging_worker(spool) as worker:
        worker.kill()
        worker.wait()
        assert spool.drain(0.1) == 1


def test_worker_that_gets_on_does_not_hang(spool):
    """While a backlog is emptied, its records are old: the oldest goes, nothing is said."""
    spool.append_candidates([candidate(1), candidate(2)])
    age(spool, STUCK_SECONDS + 90)
    lock, first = spool_lock(spool.paths), oldest_spooled(spool.paths.spool)
    with file_lock(lock, 1):
        moving = threading.Timer(0.1, first.unlink)
        moving.start()
        assert spool.drain(3.0) == 0
        moving.join()
