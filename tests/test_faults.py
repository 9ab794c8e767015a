"""Faults around the gate end in one clear line, with nothing half-written."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from lessons_loop.filter.errors import (
    EmbedError,
    InvalidLesson,
    LessonsError,
    StoreError,
    StoreMissing,
)
from lessons_loop.filter.models import Status
from lessons_loop.filter.store import file_lock
from lessons_loop.promote.errors import JournalBroken, LedgerBroken, LockHeld, Paused, WrongState
from lessons_loop.promote.records import Action, Change
from lessons_loop.promote.session import open_gate
from lessons_loop.promote.store.lock import gate_lock
from support.faults import change_of, fill, filled, tree
from support.gate import (
    HUMAN,
    archived,
    bare,
    candidate,
    curated,
    gate,
    lesson,
    on_folder,
    promotion,
    raw_client,
    retirement,
    server_url,
    settings,
)


@pytest.fixture
def root(root: Path) -> Path:
    """A store with one curated lesson and one candidate."""
    return filled(root)


# --- pause


def test_pause_file_stops_the_gate(root: Path) -> None:
    (root / "state" / "paused").touch()
    before = tree(root)
    with pytest.raises(Paused, match=r"paused by .*state/paused: `lessons resume`"), gate(root):
        pass
    assert tree(root) == before


@pytest.mark.parametrize(("value", "paused"), [("1", True), (" true ", True), ("0", False)])
def test_pause_variable_stops_the_gate(
    root: Path, monkeypatch: pytest.MonkeyPatch, value: str, paused: bool
) -> None:
    monkeypatch.setenv("LESSONS_PAUSE", value)
    if paused:
        with pytest.raises(Paused, match="LESSONS_PAUSE"), gate(root):
            pass
    else:
        change_of(root)


# --- state directory


def test_other_state_directory_is_refused(root: Path, tmp_path: Path) -> None:
    if not server_url(root):
        fill(root := tmp_path / "here")
    expected = rf"is expected in {root}/state; .*other holds none: pass --state-dir"
    with (
        pytest.raises(WrongState, match=expected),
        open_gate(settings(root, state=tmp_path / "other")),
    ):
        pass
    assert not (tmp_path / "other" / "ledger.jsonl").exists()


def test_lost_state_directory_is_not_made_anew(root: Path) -> None:
    shutil.rmtree(root / "state")
    with pytest.raises(WrongState, match=r"holds none: .* put that folder back"), gate(root):
        pass


@on_folder
def test_store_may_move_with_its_state(root: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    root.rename(moved)
    change_of(moved)
    with gate(moved) as session:
        assert len(session.curated) == 2


def test_domains_share_state_and_ledger(root: Path) -> None:
    with open_gate(settings(root, domain="third")) as session:
        session.apply(promotion(session, candidate("Use it.", domain="third")))
    with gate(root) as session:
        assert [e.domain for e in session.ledger.entries()] == ["sql", "sql", "third", "third"]
        assert session.ledger.verify() == []


# --- dry run


def test_dry_run_leaves_every_byte(root: Path, tmp_path: Path) -> None:  # T-32
    before = tree(root)
    with open_gate(settings(root, dry_run=True)) as session:
        (found,) = session.candidates()
        session.apply(promotion(session, found))
        assert found.lesson.key in session.curated
        assert session.candidates() == []
        scratch = session.state
        assert not scratch.is_relative_to(tmp_path)
    assert tree(root) == before
    assert not scratch.exists()


def test_dry_run_makes_no_store(tmp_path: Path) -> None:  # T-32
    with open_gate(settings(tmp_path / "none", dry_run=True)) as session:
        assert session.candidates() == []
    assert list(tmp_path.iterdir()) == []


def test_dry_run_beside_a_gate_is_refused(root: Path) -> None:
    lock = "state/gate.lock" if server_url(root) else "gate.lock"
    with gate_lock(root / lock):
        before = tree(root)
        with pytest.raises(LockHeld), open_gate(settings(root, dry_run=True)):
            pass
        assert tree(root) == before


# --- the store


def test_foreign_collection_is_refused(root: Path) -> None:
    with raw_client(root, "curated") as client:
        client.create_collection(
            "new-lessons", configuration={"hnsw": {"space": "cosine"}}, embedding_function=None
        )
    with (
        pytest.raises(StoreError, match="new-lessons was not made by `lessons init`"),
        open_gate(settings(root, domain="new")),
    ):
        pass


def test_newer_schema_is_refused(root: Path) -> None:
    with raw_client(root, "curated") as client:
        collection = client.get_collection("sql-lessons", embedding_function=None)
        collection.modify(metadata={**(collection.metadata or {}), "schema_version": 9})
    with pytest.raises(StoreError, match="schema 9, this release knows 2"), gate(root):
        pass


# --- a store that is not the one the ledger tells of


def test_lost_domain_is_never_made_anew(root: Path) -> None:
    with raw_client(root, "curated") as client:
        client.delete_collection("sql-lessons")
    before = tree(root)
    expected = r"sql-lessons is missing, but the ledger in .*state has 2 lines \(sql\): restore"
    for domain in ("sql", "third"):
        with (
            pytest.raises(StoreMissing, match=expected),
            open_gate(settings(root, domain=domain)),
        ):
            pass
    assert_same_rows(before, tree(root))


def test_lost_archive_is_never_made_anew(root: Path) -> None:
    with raw_client(root, "gate") as client:
        client.delete_collection("sql-lessons-archive")
    with pytest.raises(StoreMissing, match="sql-lessons-archive is missing: restore"), gate(root):
        pass


def assert_same_rows(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Compare but for what opening an embedded client itself writes."""
    kept = {name: value for name, value in before.items() if not name.startswith("gate")}
    assert {name: value for name, value in after.items() if not name.startswith("gate")} == kept


def test_broken_ledger_stops_writing_not_reading(root: Path) -> None:
    ledger = root / "state" / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes().splitlines(keepends=True)[0])
    with gate(root) as session:
        assert len(session.candidates()) == 1
        assert session.ledger.verify() == [
            "line 2: is missing, sql has seen line 2: the ledger was cut off"
        ]
        with pytest.raises(LedgerBroken, match="cut off; run `lessons verify`"):
            session.apply(promotion(session, candidate()))
    assert len(ledger.read_bytes().splitlines()) == 1


def test_unreadable_journal_stops_the_gate(root: Path) -> None:
    (root / "state" / "journal.json").write_text("{}")
    with pytest.raises(JournalBroken, match=r"journal\.json cannot be read"), gate(root):
        pass


# --- changes that would lose something


def test_change_that_would_lose_a_lesson_is_refused(root: Path) -> None:
    with gate(root) as session:
        (key,) = session.curated
        change = retirement(session, key)
        with pytest.raises(StoreError, match="without standing in the archive"):
            session.apply(Change(**{**change.__dict__, "archive": ()}))
        assert list(session.curated) == [key]
        assert len(session.ledger.entries()) == 2


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"put": (curated(lesson(domain="other")),)}, InvalidLesson),
        ({"put": (curated(lesson()), curated(lesson()))}, InvalidLesson),
        ({"put": (curated(lesson("New.")),)}, EmbedError),
        ({"archive": (archived(lesson(), Status.CURATED),)}, InvalidLesson),
        ({"remove": ("no-such-key",)}, StoreError),
    ],
)
def test_unsound_change_writes_nothing(
    root: Path, fields: dict[str, object], error: type[LessonsError]
) -> None:
    base = {"action": Action.PROMOTE, "key": "k", "reason": "r", "actor": HUMAN, "payload": {}}
    with gate(root) as session:
        with pytest.raises(error):
            session.apply(Change(**{**base, **fields}))  # type: ignore[arg-type]
        assert len(session.ledger.entries()) == 2


def test_without_embedder_a_run_holds_but_never_promotes(root: Path) -> None:
    with open_gate(bare(root)) as session:
        (found,) = session.candidates()
        with pytest.raises(EmbedError, match="no embedder: set LESSONS_EMBEDDING"):
            promotion(session, found)
        held = archived(found.lesson, Status.HELD, candidate=found)
        session.apply(
            Change(
                Action.HOLD,
                found.lesson.key,
                "wait",
                HUMAN,
                {},
                archive=(held,),
                staged=(found.id,),
            )
        )
    with gate(root) as session:
        assert [row.candidate for row in session.held()] == [found]
        session.apply(promotion(session, found))
        assert session.held() == []
        assert f"{found.lesson.key}-held" in session.archive


def test_error_inside_a_run_keeps_what_was_decided(root: Path) -> None:
    with pytest.raises(RuntimeError), gate(root) as session:
        session.apply(promotion(session, candidate()))
        raise RuntimeError("reviewer died")
    with gate(root) as session:
        assert len(session.curated) == 2
    if not server_url(root):
        with file_lock(root / "staging.lock", 0.1):
            pass
