"""The spool: a locked store or a restart costs nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lessons_loop.filter.errors import StoreError, StoreLocked
from lessons_loop.filter.events import Usage
from lessons_loop.filter.models import Candidate, Evidence, Lesson, Record
from lessons_loop.filter.spool import Spool, read_spooled, spooled, write_spooled
from lessons_loop.filter.store import StorePaths, file_lock, staging_session

LESSON = Lesson(domain="sql", text="Use LIMIT.", kind="perf-guard", trigger="big tables")
PROOF = Evidence(kind="tool-success", quote="12 rows in 3 ms", excerpt="[2] 12 rows in 3 ms")
DRAIN = """
import sys
from pathlib import Path
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import StorePaths
Spool(StorePaths(Path(sys.argv[1]))).drain(60)
"""


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
    assert [drainer.wait(120) for drainer in drainers] == [0, 0]
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
