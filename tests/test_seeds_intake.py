from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lessons_loop.filter.models import Status
from lessons_loop.filter.published import read_published
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.decide.decide import Wanted, decide
from lessons_loop.promote.exchange.intake import IntakeReport
from lessons_loop.promote.gate import Rules
from lessons_loop.promote.records import Decision
from lessons_loop.seeds.load import SeedProblems, load_domain
from support.gate import HUMAN, HashEmbedder, gate, retirement
from support.seeds import WEATHER, tree_hash, write_seeds


def load(root: Path, folder: Path, force: bool = False, **fields: Any) -> IntakeReport:
    with gate(root / "store", domain=folder.name, **fields) as session:
        return load_domain(session, folder, force)


def counts(report: IntakeReport) -> tuple[int, int, int, int]:
    return (report.added, report.changed, report.unchanged, report.skipped)


@pytest.fixture
def weather(tmp_path: Path) -> Path:
    return write_seeds(tmp_path / "seeds" / "weather", WEATHER)


def published_texts(root: Path) -> set[str]:
    found = read_published(StorePaths(root / "store").published("weather"))
    assert found
    return {row.lesson.text for row in found.lessons}


def test_third_domain_needs_files_only(tmp_path: Path, weather: Path) -> None:
    assert counts(load(tmp_path, weather)) == (2, 0, 0, 0)
    assert published_texts(tmp_path) == set(WEATHER.values())
    with gate(tmp_path / "store", domain="weather") as session:
        rows = list(session.curated.values())
        assert {row.seed_id for row in rows} == set(WEATHER)
        assert {(row.lesson.source, row.lesson.status) for row in rows} == {
            ("seed:weather", Status.CURATED)
        }
        assert [e.actor.kind for e in session.ledger.entries() if e.action == "seed"] == [
            "seed"
        ] * 2


# T-36
def test_twice_changes_nothing_and_embeds_nothing(tmp_path: Path, weather: Path) -> None:
    load(tmp_path, weather)
    before = tree_hash(tmp_path / "store" / "published")
    again = HashEmbedder()
    assert counts(load(tmp_path, weather, embedder=again)) == (0, 0, 2, 0)
    assert not [text for text, _ in again.asked if "weather readings" in text]
    assert tree_hash(tmp_path / "store" / "published") == before


# T-36
def test_changed_seed_supersedes_by_id(tmp_path: Path, weather: Path) -> None:
    load(tmp_path, weather)
    write_seeds(weather, WEATHER | {"rain-in-mm": "Read rainfall in inches."})
    assert counts(load(tmp_path, weather)) == (0, 1, 1, 0)
    assert published_texts(tmp_path) == {"Read rainfall in inches.", WEATHER["gust-column"]}
    assert counts(load(tmp_path, weather)) == (0, 0, 2, 0)
    with gate(tmp_path / "store", domain="weather") as session:
        assert [row.lesson.text for row in session.archive.values()] == [WEATHER["rain-in-mm"]]


# T-36
def test_change_by_hand_is_kept_unless_forced(tmp_path: Path, weather: Path) -> None:
    load(tmp_path, weather)
    with gate(tmp_path / "store", domain="weather") as session:
        client = session.clients.curated
        collection = client.get_collection("weather-lessons", embedding_function=None)
        key = next(k for k, row in session.curated.items() if row.seed_id == "rain-in-mm")
        collection.update(ids=[key], metadatas=[{"trigger": "changed by hand"}])
    write_seeds(weather, WEATHER | {"rain-in-mm": "Read rainfall in inches."})
    first = load(tmp_path, weather)
    assert counts(first) == (0, 0, 1, 1)
    assert any("conflict" in note.reason for note in first.notes)
    assert counts(load(tmp_path, weather, force=True)) == (0, 1, 1, 0)


# T-12
def test_retired_lesson_stays_retired(tmp_path: Path, weather: Path) -> None:
    load(tmp_path, weather)
    with gate(tmp_path / "store", domain="weather") as session:
        key = next(k for k, row in session.curated.items() if row.seed_id == "rain-in-mm")
        session.apply(retirement(session, key))
    again = load(tmp_path, weather)
    assert counts(again) == (0, 0, 1, 1)
    assert any("retired" in note.reason for note in again.notes)
    assert WEATHER["rain-in-mm"] not in published_texts(tmp_path)
    assert counts(load(tmp_path, weather, force=True)) == (1, 0, 1, 0)


# T-32
def test_dry_run_keeps_every_byte(tmp_path: Path, weather: Path) -> None:
    load(tmp_path, weather)
    write_seeds(weather, {"gust-column": "Take gusts from wind.gust_kn.", "new": "Read hail."})
    before = tree_hash(tmp_path)
    assert counts(load(tmp_path, weather, dry_run=True)) == (1, 1, 0, 0)
    assert tree_hash(tmp_path) == before


# T-35
def test_one_bad_file_loads_nothing(tmp_path: Path, weather: Path) -> None:
    (weather / "bad.yaml").write_text("- id: x\n  text: a: b\n")
    with pytest.raises(SeedProblems):
        load(tmp_path, weather)
    with gate(tmp_path / "store", domain="weather") as session:
        assert not session.curated


def test_withdrawn_seed_is_not_loaded_again(tmp_path: Path, weather: Path) -> None:  # T-12
    load(tmp_path, weather)
    with gate(tmp_path / "store", domain="weather") as session:
        key = next(iter(session.curated))
        decide(session, [key], Wanted(Decision.REJECT, "no longer true", HUMAN), Rules())
    report = load(tmp_path, weather)
    assert counts(report) == (0, 0, 1, 1) and len(published_texts(tmp_path)) == 1
    assert [note.reason for note in report.notes if note.reason] == ["retired: it is rejected"]
