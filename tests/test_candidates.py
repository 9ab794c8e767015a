from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lessons_loop.filter.errors import StoreDamaged
from lessons_loop.filter.events import Usage
from lessons_loop.filter.staging_made import STAGING_NEIGHBOURS
from lessons_loop.filter.store import StorePaths, append_records, collection_names
from lessons_loop.promote.store.candidates import (
    bounded,
    delete_staged,
    ensure_staging,
    read_candidates,
    read_events,
)
from lessons_loop.promote.store.rows import PAGE
from support.gate import (
    candidate,
    gate,
    located,
    on_folder,
    promotion,
    raw_client,
    server_url,
    stage,
    stage_usage,
)

NAME = "sql-lessons-candidates"
DIE_INSIDE = """
import os, sys, pathlib
from lessons_loop.filter.store import StorePaths, staging_session
with staging_session(StorePaths(pathlib.Path(sys.argv[1]))) as client:
    client.get_or_create_collection("sql-lessons-candidates", embedding_function=None).count()
    os._exit(9)
"""


def forge(root: Path, *rows: tuple[str, str | None, dict[str, Any] | None]) -> None:
    """Put rows into staging as a forger with a client could."""
    with raw_client(root, "staging") as client:
        collection = client.get_or_create_collection(NAME, embedding_function=None)
        for id_, document, metadata in rows:
            collection.add(
                ids=[id_],
                documents=None if document is None else [document],
                metadatas=None if metadata is None else [metadata],
                embeddings=[[1.0]],
            )


def test_candidates_come_oldest_first(root: Path) -> None:
    found = [candidate(f"Use table {n}.", message=f"m{n}") for n in range(5)]
    stage(root, found)
    assert read_candidates(located(root), "sql").candidates == found


def test_forged_rows_are_counted_never_raised(root: Path) -> None:
    good = candidate()
    stage(root, [good])
    record = good.to_record()
    forge(
        root,
        ("no-document", None, {"kind": "perf-guard"}),
        ("no-metadata", "text", None),
        ("wrong-id", record.document, dict(record.metadata)),
        ("bad-tags", record.document, dict(record.metadata) | {"tags": 5}),
        ("extra", record.document, dict(record.metadata) | {"lesson": "x", "evidence": "y"}),
        ("long", "x" * 100_000, dict(record.metadata)),
        ("nul", "a\x00b", dict(record.metadata)),
    )
    staged = read_candidates(located(root), "sql")
    assert (staged.candidates, staged.unreadable) == ([good], 7)


def test_candidate_of_another_domain_is_none(root: Path) -> None:
    stranger = candidate(domain="openwebui").to_record()
    forge(root, (stranger.id, stranger.document, dict(stranger.metadata)))
    assert read_candidates(located(root), "sql") == ([], 1)


@hypothesis_settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    metadata=st.dictionaries(
        st.sampled_from(["domain", "kind", "tags", "tools", "quote", "at", "lesson", "x", "self"]),
        st.one_of(
            st.text(max_size=20, alphabet=st.characters(codec="utf-8")),
            st.integers(-(2**60), 2**60),
            st.booleans(),
            st.lists(st.integers(0, 9), min_size=1, max_size=3),
        ),
        min_size=1,
    )
)
def test_any_metadata_is_read_or_counted(
    tmp_path_factory: pytest.TempPathFactory, metadata: dict[str, Any]
) -> None:
    root = tmp_path_factory.mktemp("store")
    forge(root, ("row", "Use it.", metadata))
    assert read_candidates(located(root), "sql") == ([], 1)


def test_thousands_are_read_in_pages(root: Path) -> None:
    assert PAGE <= 2000
    records = [candidate(message=f"m{n}").to_record() for n in range(5000)]
    with raw_client(root, "staging") as client:
        for start in range(0, 5000, 500):  # each call within the client's time limit
            append_records(client, NAME, records[start : start + 500])
    staged = read_candidates(located(root), "sql")
    assert [found.message_ref for found in staged.candidates] == [f"m{n}" for n in range(5000)]


@on_folder
def test_missing_staging_is_empty_and_stays_missing(root: Path) -> None:
    assert read_candidates(located(root), "sql") == ([], 0)
    delete_staged(located(root), "sql", ["x"], ["y"])
    assert not StorePaths(root).staging.exists()


def test_same_turn_twice_is_one_row_two_turns_are_two(root: Path) -> None:  # T-24
    stage(root, [candidate(message="m1"), candidate(message="m1"), candidate(message="m2")])
    assert len(read_candidates(located(root), "sql").candidates) == 2


def test_forged_events_are_told_apart(root: Path) -> None:
    used = Usage(keys=("k",), message_ref="m", at="2026-11-01T08:00:00Z")
    stage_usage(root, "sql", [used])
    with raw_client(root, "staging") as client:
        collection = client.get_collection("sql-lessons-events", embedding_function=None)
        for id_, metadata in (
            ("other-id", dict(used.to_record().metadata)),
            ("many", dict(used.to_record().metadata) | {"keys": ["k"] * 1000}),
            ("thumb", {"type": "rating", "outcome": "up"}),
            ("newer", {"type": "no-such-type"}),
        ):
            collection.add(ids=[id_], documents=["x"], metadatas=[metadata], embeddings=[[1.0]])
    events = read_events(located(root), "sql")
    assert events.usages == [(used.id, used)]
    assert events.unreadable == ["other-id", "many", "thumb", "newer"]


def test_forger_cannot_settle_the_shape_of_staging(root: Path) -> None:
    ensure_staging(located(root), "sql")
    with raw_client(root, "staging") as client:
        collection = client.get_collection(NAME, embedding_function=None)
        assert collection.count() == 0
        with pytest.raises(Exception, match="dimension of 1, got 3"):
            collection.add(ids=["x"], documents=["x"], embeddings=[[1.0, 2.0, 3.0]])
    stage(root, [found := candidate()])
    assert read_candidates(located(root), "sql").candidates == [found]


HUGE: list[tuple[str, Any]] = [
    ("x" * 1_900_000, None),
    ("x", {"quote": "y" * 1_900_000}),
    ("x", {"k" * 1_900_000: 1}),
    ("x", {"tags": ["y" * 900] * 900}),
]


@pytest.mark.parametrize(("document", "metadata"), HUGE)
def test_of_a_huge_forged_row_only_the_id_is_held(document: str, metadata: Any) -> None:
    assert bounded("a", document, metadata) == ("a", "", {})


def test_huge_forged_rows_are_counted(root: Path) -> None:
    ensure_staging(located(root), "sql")
    forge(root, *((str(number), *row) for number, row in enumerate(HUGE)))
    stage(root, [found := candidate()])
    assert read_candidates(located(root), "sql") == ([found], 4)


@on_folder
def test_death_inside_a_session_needs_no_hand(root: Path) -> None:  # T-31
    found = candidate()
    stage(root, [found])
    subprocess.run([sys.executable, "-c", DIE_INSIDE, str(root)], check=False)
    assert StorePaths(root).staging_marker.exists()
    with gate(root) as session:
        assert session.candidates() == [found]
        session.apply(promotion(session, found))
        assert session.candidates() == []


@on_folder
def test_damaged_staging_names_the_repair(root: Path) -> None:
    stage(root, [candidate()])
    paths = StorePaths(root)
    paths.staging_marker.write_text("{}")
    (paths.staging / "chroma.sqlite3").write_bytes(b"this is no database" * 100)
    with gate(root) as session, pytest.raises(StoreDamaged, match="run `lessons repair`"):
        session.candidates()


@pytest.mark.parametrize("kind", ["candidates", "events"])
def test_staging_has_a_small_index(root: Path, kind: str) -> None:
    with gate(root):  # on a server that makes staging
        pass
    if not server_url(root):
        ensure_staging(located(root), "sql")
    with raw_client(root, "staging") as client:
        found = client.get_collection(collection_names("sql")[kind], embedding_function=None)
        assert found.configuration_json["hnsw"]["max_neighbors"] == STAGING_NEIGHBOURS
