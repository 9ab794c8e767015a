"""Staging on a real Chroma: short locked sessions, nothing lost, no crash loop, no freeze."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

from lessons_loop.filter import store as store_module
from lessons_loop.filter.errors import StoreDamaged, StoreError, StoreLocked
from lessons_loop.filter.events import Usage
from lessons_loop.filter.models import Record
from lessons_loop.filter.spool import (
    Spool,
)
from lessons_loop.filter.store import (
    StorePaths,
    append_records,
    collection_names,
    ensure_salt,
    file_lock,
    refuse_locked_database,
    staging_session,
)

RECORDS = [Record(f"id{i}", f"text {i}", {"n": i}) for i in range(3)]
HOLD_LOCK = """
import fcntl, sys, time
handle = open(sys.argv[1], "a+")
fcntl.flock(handle, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""
HOLD_DATABASE = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
time.sleep(60)
"""
APPEND = """
import sys
from pathlib import Path
from lessons_loop.filter.models import Record
from lessons_loop.filter.store import StorePaths, append_records, staging_session
paths = StorePaths(Path(sys.argv[1]))
for n in range(8):
    with staging_session(paths, 60) as client:
        rows = [Record(f"{sys.argv[2]}-{n}-{i}", "text", {"n": i}) for i in range(5)]
        append_records(client, "sql-lessons-candidates", rows)
"""
DIE_INSIDE = """
import os, sys
from pathlib import Path
from lessons_loop.filter.store import StorePaths, staging_session
with staging_session(StorePaths(Path(sys.argv[1]))):
    os._exit(9)
"""


@pytest.fixture
def paths(tmp_path):
    return StorePaths(tmp_path / "store")


def run_python(source, *args, **kwargs):
    return subprocess.Popen([sys.executable, "-c", source, *map(str, args)], **kwargs)


def count(paths):
    with staging_session(paths) as client:
        return client.get_collection("sql-lessons-candidates", embedding_function=None).count()


def test_appended_rows_read_back(paths):
    with staging_session(paths) as client:
        append_records(client, "sql-lessons-candidates", RECORDS)
        append_records(client, "sql-lessons-candidates", RECORDS)  # a repeat adds nothing
    assert count(paths) == 3
    assert not paths.staging_marker.exists()


def test_plugin_types_offer_append_only():
    for protocol in (store_module.CandidateAppender, store_module.EventAppender):
        verbs = {name for name in vars(protocol) if not name.startswith("_")}
        assert all(verb.startswith("append") for verb in verbs) and verbs


def test_four_collections_per_domain():
    assert set(collection_names("sql").values()) == {
        "sql-lessons",
        "sql-lessons-candidates",
        "sql-lessons-events",
        "sql-lessons-archive",
    }


def test_three_processes_lose_nothing(paths):  # T-40
    writers = [run_python(APPEND, paths.root, f"w{i}") for i in range(3)]
    assert [writer.wait(250) for writer in writers] == [0, 0, 0]
    assert count(paths) == 3 * 8 * 5


def test_held_lock_is_reported(paths):
    paths.root.mkdir()
    with run_python(HOLD_LOCK, paths.staging_lock, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        with pytest.raises(StoreLocked, match="held by another"), staging_session(paths, 0.2):
            pass
        holder.kill()
    with staging_session(paths, 5):
        pass


def test_locked_database_freezes_nobody(paths):
    with staging_session(paths) as client:
        append_records(client, "sql-lessons-candidates", RECORDS)
    database = paths.staging / "chroma.sqlite3"
    with run_python(HOLD_DATABASE, database, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        started = time.monotonic()
        with pytest.raises(StoreLocked, match="locked"), staging_session(paths):
            pass
        assert time.monotonic() - started < 30  # Chroma waits for as long as it is held
        holder.kill()
    assert count(paths) == 3


def test_crash_inside_a_session_is_not_repeated(paths):
    assert run_python(DIE_INSIDE, paths.root).wait(200) == 9
    with pytest.raises(StoreDamaged, match="lessons repair"), staging_session(paths):
        pass


def test_error_inside_a_session_leaves_no_marker(paths):
    with pytest.raises(ValueError), staging_session(paths):
        raise ValueError
    assert not paths.staging_marker.exists()


def test_file_that_is_no_database_is_named(paths):
    paths.staging.mkdir(parents=True)
    (paths.staging / "chroma.sqlite3").write_bytes(b"garbage" * 1000)
    with pytest.raises(StoreDamaged, match="lessons repair"), staging_session(paths):
        pass


def test_folder_that_is_a_file_is_named(tmp_path):
    (tmp_path / "store").write_text("not a folder")
    with pytest.raises(StoreError, match="store"), staging_session(StorePaths(tmp_path / "store")):
        pass


def test_missing_database_is_no_lock(tmp_path):
    refuse_locked_database(tmp_path / "chroma.sqlite3")


def test_own_probe_leaves_the_database_free(tmp_path):
    database = tmp_path / "chroma.sqlite3"
    sqlite3.connect(database).close()
    refuse_locked_database(database)
    with sqlite3.connect(database, timeout=0) as connection:
        connection.execute("create table t (a)")
    connection.close()


def test_salt_is_made_once_and_private(paths):
    found = []
    threads = [threading.Thread(target=lambda: found.append(ensure_salt(paths))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1 and len(found[0]) == 64
    assert os.stat(paths.salt).st_mode & 0o777 == 0o600


def test_salt_of_the_environment_wins(paths, monkeypatch):
    monkeypatch.setenv("LESSONS_SALT", " given ")
    assert ensure_salt(paths) == b"given"
    assert not paths.salt.exists()


def test_lock_is_free_after_the_block(paths):
    with file_lock(paths.gate_lock, 0):
        pass
    with file_lock(paths.gate_lock, 0):
        pass


OPEN_HERE = """
import sys
from pathlib import Path
from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.store import StorePaths, staging_session
try:
    with staging_session(StorePaths(Path(sys.argv[1]))) as client:
        client.list_collections()
except StoreError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("content", "says"), [("ALLOW_RESET=maybe\n", "chromadb"), ("CHROMA_TENANT=other\n", "")]
)
def test_odd_settings_of_the_folder_end_in_one_line(tmp_path, content, says):
    (tmp_path / ".env").write_text(content)
    command = [sys.executable, "-c", OPEN_HERE, str(tmp_path / "store")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert says in done.stdout and done.stdout.count("\n") <= 1


FULL_DISK = """
import resource, sys
from pathlib import Path
from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.models import Record
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import StorePaths, ensure_salt, staging_session
paths = StorePaths(Path(sys.argv[1]))
def attempt():
    spool = Spool(paths)
    spool._keep("sql-lessons-events", Record("id", "used", {"type": "used"}))
for work in (lambda: ensure_salt(paths), attempt, lambda: staging_session(paths).__enter__()):
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    try:
        work()
    except StoreError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


def test_full_disk_leaves_nothing_that_stays(tmp_path):
    paths = StorePaths(tmp_path / "store")
    ran = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(paths.root)], capture_output=True, text=True
    )
    assert len(ran.stdout.splitlines()) == 3, ran.stderr
    left = [path.name for path in paths.root.rglob("*") if path.is_file()]
    assert left == ["staging.lock"]
    assert len(ensure_salt(paths)) == 64
    Spool(paths).append_usage("sql", Usage(keys=("k",), message_ref="m", at="2026"))
    assert Spool(paths).drain() == 1
