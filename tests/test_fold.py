from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessons_loop.filter.events import Usage
from lessons_loop.promote.fold import FoldReport, count_usages, fold_events
from support.gate import candidate, curated, gate, lesson, promotion, raw_client, shown, stage_usage

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def usage(*keys: str, message: str = "m", at: str = "2026-11-02T08:00:00Z") -> Usage:
    return Usage(keys=keys, message_ref=message, at=at)


def test_events_become_counters_once(root: Path) -> None:
    found = candidate()
    key = found.lesson.key
    with gate(root) as session:
        session.apply(promotion(session, found))
        vectors = session.nearest_vectors()[1].tolist()
    stage_usage(root, "sql", [usage(key, message=f"m{n}") for n in range(4)])
    with gate(root) as session:
        assert fold_events(session) == FoldReport(4, 1, 0, 0)
        assert fold_events(session) == FoldReport(0, 0, 0, 0)
    with gate(root) as session:
        row = session.curated[key]
        assert (row.hits, row.last_used) == (4, "2026-11-02T08:00:00Z")
        assert (row.verdict_ref, row.ledger_ref) == (2, 2)
        assert session.nearest_vectors()[1].tolist() == vectors
        assert [e.action for e in session.ledger.entries()] == ["init", "promote", "fold"]
    published = shown(root)
    assert published is not None and published.lessons[0].hits == 4


def test_unknown_and_malformed_events_are_counted_and_gone(root: Path) -> None:
    stage_usage(root, "sql", [usage("no-such-key")])
    with raw_client(root, "staging") as client:
        collection = client.get_collection("sql-lessons-events", embedding_function=None)
        collection.add(
            ids=["bad", "thumb"],
            documents=["x", "y"],
            metadatas=[{"type": "used", "keys": 5}, {"type": "rating"}],
            embeddings=[[1.0], [1.0]],
        )
    with gate(root) as session:
        assert fold_events(session) == FoldReport(1, 0, 1, 1)
    with raw_client(root, "staging") as client:
        collection = client.get_collection("sql-lessons-events", embedding_function=None)
        assert collection.get()["ids"] == ["thumb"]


def test_no_event_writes_nothing(root: Path) -> None:
    with gate(root):
        pass
    with gate(root) as session:
        fold_events(session)
        assert [e.action for e in session.ledger.entries()] == ["init"]


@pytest.mark.parametrize(
    ("at", "last_used"),
    [
        ("9999-12-31T23:59:59Z", "2026-11-20T00:00:00Z"),
        ("yesterday", ""),
        ("2026-11-02", "2026-11-02T00:00:00Z"),
        ("2026-11-02T08:00:00+02:00", "2026-11-02T06:00:00Z"),
        ("0001-01-01T00:00:00+14:00", ""),
    ],
)
def test_forged_times_do_no_harm(at: str, last_used: str) -> None:
    row = curated(lesson())
    counted = count_usages({row.key: row}, [usage(row.key, at=at)], NOW)
    assert counted.rows[row.key].last_used == last_used


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from("abc"), max_size=5), max_size=8))
def test_lesson_counts_once_per_event(events: list[list[str]]) -> None:
    rows = {name: curated(lesson(f"Use {name}.")) for name in "ab"}
    usages = [usage(*keys, message=str(n)) for n, keys in enumerate(events)]
    counted = count_usages(rows, usages, NOW)
    for name in "ab":
        expected = sum(name in keys for keys in events)
        assert counted.rows.get(name, rows[name]).hits == expected
    assert counted.unknown == sum("c" in keys for keys in events)
