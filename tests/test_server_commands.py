"""Every command of the gate against a Chroma server, as on a folder."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lessons_loop.deploy.processes import free_port
from lessons_loop.filter.server import open_server, parse_server
from lessons_loop.promote.store.server_lock import server_lock
from support.chroma_server import ChromaServer
from support.commands import Done, run_here
from support.gate import candidate, raw_client, stage
from support.judging import SOUND, sightings

READING = (
    ("status",),
    ("verify",),
    ("candidates",),
    ("show", candidate(SOUND).lesson.key),
    ("promote",),
    ("promote", "--auto", "--dry-run"),
    ("seed", "--domain", "sql", "--dry-run"),
    ("repair",),
)


@pytest.fixture
def root(tmp_path: Path, store_url: str, embedding: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point the commands at a server's tenant where nothing exists yet."""
    root = tmp_path / "store"
    root.mkdir()
    (root / "server.url").write_text(store_url)
    monkeypatch.setenv("LESSONS_STORE", store_url)
    monkeypatch.setenv("LESSONS_STATE", str(root / "state"))
    monkeypatch.setenv("LESSONS_EMBEDDING", embedding)
    monkeypatch.setenv("COLUMNS", "200")
    return root


def ok(*words: str) -> str:
    done = run_here(*words)
    assert done.code == 0 and not said(done), done
    return done.out


def said(done: Done) -> list[str]:
    """Return stderr's lines without those that only say what is under way."""
    return [line for line in done.err.splitlines() if line and not line.endswith("…")]


def refused(*words: str) -> Done:
    done = run_here(*words)
    assert done.code == 1 and len(said(done)) == 1, done
    return done


def picture(root: Path) -> dict[str, str]:
    found = {}
    for database in ("curated", "staging", "gate"):
        with raw_client(root, database) as client:
            for one in client.list_collections():
                rows = one.get(include=["documents", "metadatas", "embeddings"])
                rows["embeddings"] = np.asarray(rows["embeddings"]).tolist()
                content = [str(one.id), one.metadata, rows]
                found[f"{database}/{one.name}"] = json.dumps(content, sort_keys=True)
    return found


def test_whole_loop_of_commands(root: Path) -> None:
    assert 'LESSONS_SALT="$(cat ' in ok("init", "--domain", "sql")
    assert "was there" in ok("init", "--domain", "sql")
    stage(root, sightings(SOUND, 2))
    listed = json.loads(ok("candidates", "--json"))
    assert [row["text"] for row in listed["candidates"]] == [SOUND]
    assert "preview" in ok("promote", "--auto", "--unattended")
    assert "would be promoted: " in ok("confirm")
    assert "promoted 1" in ok("promote", "--auto", "--unattended")
    status = json.loads(ok("status", "--json"))
    assert status["problems"] == [] and status["spool"] is None
    assert status["domains"][0]["curated"] == status["domains"][0]["published"] == 1
    assert status["domains"][0]["floor"] > 0 and status["ledger_verified"]
    assert "1 lessons published" in ok("publish")
    assert "1 lessons embedded again" in ok("reembed", "--domain", "sql")
    assert "the ledger verifies: 3 lines" in ok("verify")
    key = listed["candidates"][0]["id"]
    assert "withdrawn" in ok("reject", key, "--reason", "true no more")
    assert json.loads(ok("show", key, "--json"))["status"] == "rejected"


def test_seeds_are_loaded_once(root: Path) -> None:
    first = json.loads(ok("seed", "--domain", "sql", "--json"))["domains"][0]
    again = json.loads(ok("seed", "--domain", "sql", "--json"))["domains"][0]
    assert first["added"] == first["total"] == again["unchanged"] > 0


def test_reading_leaves_every_row_and_file(root: Path) -> None:  # T-32
    ok("init", "--domain", "sql")
    stage(root, sightings(SOUND, 2))
    rows = picture(root)
    files = {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}
    for words in READING:
        assert ok(*words)
        assert picture(root) == rows, words
        assert {file: file.read_bytes() for file in root.rglob("*") if file.is_file()} == files


def test_state_directory_is_asked_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LESSONS_STATE")
    for words in (("init",), ("candidates",), ("verify",), ("publish",)):
        assert "pass --state-dir or set LESSONS_STATE" in refused(*words).err


def test_store_that_was_not_made_names_init(root: Path) -> None:
    for words in (("candidates",), ("verify",), ("promote", "--auto"), ("publish",)):
        assert "is missing: run `lessons init --store http" in refused(*words).err
    assert "database curated is missing" in run_here("repair").out


def test_unknown_domain_is_told(root: Path) -> None:
    ok("init", "--domain", "sql")
    assert "this store has: sql" in ok("candidates", "--domain", "sqll")
    done = run_here("status", "--domain", "sqll")
    assert done.code == 1 and "sqll: is not in this store" in done.out


@pytest.mark.parametrize("words", [*READING[:7], ("init",), ("publish",), ("reembed",)])
def test_dead_server_is_one_line(
    root: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("LESSONS_STORE", url)
    done = refused(*words)
    assert url in done.err and "cannot be reached" in done.err


def test_frozen_server_is_given_up(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ChromaServer(tmp_path / "own") as server:
        monkeypatch.setenv("LESSONS_STORE", server.base)
        ok("init", "--domain", "sql")
        server.freeze()
        started = time.monotonic()
        assert "does not answer within 10 s" in refused("candidates").err
        assert time.monotonic() - started < 60
        server.thaw()


def test_repair_names_what_is_wrong(root: Path) -> None:
    ok("init", "--domain", "sql")
    assert ok("repair").splitlines() == [
        "curated is sound, 0 rows",
        "staging is sound, 0 rows",
        "gate is sound, 0 rows",
        "ledger is sound",
        "use register is sound",
    ]
    with raw_client(root, "curated") as client:
        client.create_collection("other-lessons", embedding_function=None)
    with closing(open_gate_database(root)) as client, held(root, client):
        done = run_here("repair")
    assert done.code == 1
    assert "other-lessons compares by l2: run `lessons reembed" in done.out
    assert "sql-lock is held by" in done.out


def open_gate_database(root: Path) -> Any:
    return open_server(parse_server((root / "server.url").read_text()), "gate")


def held(root: Path, client: Any) -> Any:
    return server_lock(lambda: open_gate_database(root), client, "sql")
