"""The small file a gate leaves behind: what status and the line about waiting ones read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lessons_loop.filter.events import Rating, Usage
from lessons_loop.filter.models import Status
from lessons_loop.filter.store import STAGING_VECTOR
from lessons_loop.promote.decay.fold import fold_events
from lessons_loop.promote.runs.summary import read_records, read_summaries, summary_path
from lessons_loop.promote.session import open_gate
from lessons_loop.promote.store.staged_look import look_at_staging
from support.gate import (
    candidate,
    gate,
    located,
    promotion,
    raw_client,
    settings,
    stage,
    stage_events,
)


def test_session_leaves_a_summary(root: Path) -> None:
    with gate(root) as session:
        session.apply(promotion(session, candidate()))
        stage_two(root)
    (found,) = read_summaries(root / "state")
    assert (found.domain, found.curated, found.candidates, found.waiting) == ("sql", 1, 2, 2)
    assert found.oldest == "2026-11-01T08:00:00Z" and found.model == "hash-64"
    with gate(root) as session:
        assert (found.head_n, found.rev) == (session.holdings.header.head_n, 1)


def stage_two(root: Path) -> None:
    stage(root, [candidate("Bound hours by day_key.", message=f"m-{n}") for n in (1, 2)])


def test_dry_run_leaves_none(root: Path) -> None:
    with gate(root):
        pass
    summary_path(root / "state", "sql").unlink()
    with open_gate(settings(root, dry_run=True)):
        pass
    assert read_summaries(root / "state") == []


def test_held_lessons_wait_too(root: Path) -> None:
    from lessons_loop.promote.records import Action, Change
    from support.gate import HUMAN, archived, lesson

    row = archived(lesson("Ask for the plant first."), Status.HELD)
    with gate(root) as session:
        session.apply(Change(Action.HOLD, row.lesson.key, "?", HUMAN, {}, archive=(row,)))
    (found,) = read_summaries(root / "state")
    assert (found.held, found.waiting, found.oldest) == (1, 1, row.at)


def test_look_counts_without_opening_the_store(root: Path) -> None:
    assert look_at_staging(located(root), "sql").candidates == 0
    with gate(root):
        pass
    stage_two(root)
    look = look_at_staging(located(root), "sql")
    assert (look.candidates, look.events, look.oldest) == (2, 0, "2026-11-01T08:00:00Z")
    assert look_at_staging(located(root), "other").candidates == 0


@pytest.mark.parametrize("content", [b"", b"{", b'{"domain": "other"}', b"\xff\xfe"])
def test_unreadable_summary_is_none(tmp_path: Path, content: bytes) -> None:
    path = summary_path(tmp_path, "sql")
    path.parent.mkdir()
    path.write_bytes(content)
    path.with_suffix(".records.jsonl").write_bytes(b"{}\n\xff\n")
    assert read_summaries(tmp_path) == [] and read_records(tmp_path, "sql") == []


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({}, 1),
        ({"reason": "too_verbose"}, 0),
        ({"outcome": "none"}, 0),
        ({"keys": ("0dc53d4a",)}, 1),
        ({"keys": ("deadbeef",)}, 1),  # names no lesson of the answer
    ],
)
def test_record_counts_users_who_judged(root: Path, said: dict[str, Any], expected: int) -> None:
    with gate(root) as session:
        session.apply(promotion(session, candidate()))
        (key,) = session.curated
    told = {"message_ref": "m", "user_ref": "u", "at": "2026-11-02T08:00:00Z"}
    thumb = Rating(**({"outcome": "down"} | told | said))
    stage_events(root, [Usage(keys=(key,), **told), thumb])
    with gate(root) as session:
        fold_events(session)
    (found,) = read_records(root / "state", "sql")
    assert (found.judges, found.judged) == (expected, expected)


def test_row_that_is_no_candidate_hides_no_age(root: Path) -> None:
    with gate(root):
        pass
    with raw_client(root, "staging") as client:
        rows = client.get_or_create_collection("sql-lessons-candidates", embedding_function=None)
        rows.add(ids=["0"], documents=["x"], metadatas=[{"at": "0"}], embeddings=[STAGING_VECTOR])
    stage_two(root)
    assert look_at_staging(located(root), "sql").oldest == "2026-11-01T08:00:00Z"
