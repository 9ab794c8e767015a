from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lessons_loop.filter.errors import StoreDamaged, StoreError, StoreLocked
from lessons_loop.filter.events import Usage
from lessons_loop.filter.store import StorePaths, file_lock
from lessons_loop.promote.store.candidates import read_candidates, read_events
from lessons_loop.promote.store.rebuild import re_embed_domain, repair_gate, repair_staging
from lessons_loop.promote.store.repair import gate_marker
from support.gate import candidate, gate, located, promotion, settings, stage, stage_usage


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A staging folder with rows, its index on disk, and a crash marker."""
    found = StorePaths(tmp_path_factory.mktemp("crashed") / "store")
    stage(found, [candidate(f"Use table {n}.", message=f"m{n}") for n in range(60)])
    stage_usage(found, "sql", [Usage(keys=("k",), message_ref="m", at="2026-11-01T08:00:00Z")])
    persist_index(found)
    found.staging_marker.write_text("{}")
    return found.root


@pytest.fixture
def paths(crashed: Path, tmp_path: Path) -> StorePaths:
    """A copy of it, for one test."""
    return StorePaths(shutil.copytree(crashed, tmp_path / "store"))


def persist_index(paths: StorePaths) -> None:
    """Write Chroma's index files, which small collections keep in the database's log."""
    code = (
        "import sys; from pathlib import Path\n"
        "from lessons_loop.filter.store import open_embedded\n"
        "client = open_embedded(Path(sys.argv[1]))\n"
        "found = client.get_collection('sql-lessons-candidates', embedding_function=None)\n"
        "found.modify(configuration={'hnsw': {'sync_threshold': 3}})\n"
        "[found.update(ids=[i], embeddings=[[1.0]]) for i in found.get()['ids'][:9]]\n"
        "client.close()\n"
    )
    subprocess.run([sys.executable, "-c", code, str(paths.staging)], check=True)


def index_files(paths: StorePaths) -> list[Path]:
    return [file for file in paths.staging.rglob("*") if file.parent != paths.staging]


def test_sound_staging_only_loses_its_marker(paths: StorePaths) -> None:
    report = repair_staging(paths)
    assert (report.outcome, report.line) == ("sound", "staging is sound")
    assert not paths.staging_marker.exists()
    assert len(read_candidates(located(paths.root), "sql").candidates) == 60


@pytest.mark.parametrize("name", ["index_metadata.pickle", "data_level0.bin", "header.bin"])
def test_torn_index_is_rebuilt_without_loss(paths: StorePaths, name: str) -> None:
    torn = [file for file in index_files(paths) if file.name == name]
    for file in torn:
        file.write_bytes(file.read_bytes()[:5])
    report = repair_staging(paths)
    assert torn and report.outcome == "rebuilt"
    assert len(read_candidates(located(paths.root), "sql").candidates) == 60
    assert len(read_events(located(paths.root), "sql").usages) == 1
    assert report.aside is not None and (report.aside / "chroma.sqlite3").exists()


def test_unreadable_staging_is_moved_aside(paths: StorePaths) -> None:
    (paths.staging / "chroma.sqlite3").write_bytes(b"this is no database" * 100)
    report = repair_staging(paths)
    assert report.outcome == "emptied" and report.aside is not None
    assert report.line.startswith("staging could not be read and starts anew")
    assert (report.aside / "chroma.sqlite3").exists()
    stage(paths, [candidate()])
    with gate(paths.root) as session:
        assert len(session.candidates()) == 1


def test_death_between_renames_is_finished(paths: StorePaths) -> None:
    paths.staging.rename(paths.root / "staging.new")
    assert repair_staging(paths).outcome == "sound"
    assert len(read_candidates(located(paths.root), "sql").candidates) == 60


def test_death_between_renames_is_finished_by_a_gate_too(paths: StorePaths) -> None:  # T-31
    paths.staging.rename(paths.root / "staging.new")
    with gate(paths.root) as session:  # it makes the folders that are missing
        assert len(session.candidates()) == 60
    assert repair_staging(paths).outcome == "sound" and not paths.staging_marker.exists()
    assert len(read_candidates(located(paths.root), "sql").candidates) == 60


def test_half_filled_draft_takes_no_ones_place(paths: StorePaths) -> None:
    with gate(paths.root):
        pass
    shutil.copytree(paths.staging, paths.root / "staging.new")
    (paths.root / "staging.rows").write_text("")
    shutil.rmtree(paths.staging)
    with gate(paths.root) as session:
        assert session.candidates() == []
    assert (paths.root / "staging.new").is_dir()


def test_plugin_waits_while_a_repair_is_half_done(paths: StorePaths) -> None:
    paths.staging_marker.unlink()
    (paths.staging / "chroma.sqlite3").write_bytes(b"this is no database" * 100)
    code = (
        "import os, sys; from pathlib import Path\n"
        "from lessons_loop.filter.store import StorePaths\n"
        "from lessons_loop.promote.store.repair import repair_staging\n"
        "class Killed(type(Path())):\n"
        "    def rename(self, target): super().rename(target); os.kill(os.getpid(), 9)\n"
        "repair_staging(StorePaths(Killed(sys.argv[1])))\n"
    )
    subprocess.run([sys.executable, "-c", code, str(paths.root)], check=False)
    assert not paths.staging.is_dir()
    with pytest.raises(StoreDamaged, match="run `lessons repair`"):
        stage(paths, [candidate()])
    assert repair_staging(paths).outcome == "sound"
    stage(paths, [candidate()])


def test_hanging_reader_is_given_up(paths: StorePaths) -> None:
    report = repair_staging(paths, child_seconds=0.01)
    assert report.outcome == "emptied" and report.aside is not None
    assert (report.aside / "chroma.sqlite3").exists()


def test_used_staging_is_left_alone(paths: StorePaths) -> None:
    with file_lock(paths.staging_lock, 1), pytest.raises(StoreLocked):
        repair_staging(paths, wait_seconds=0.2)
    assert paths.staging_marker.exists()


def test_torn_gate_index_is_told_and_mended_from_texts(tmp_path: Path) -> None:
    paths = StorePaths(tmp_path)
    with gate(tmp_path) as session:
        for number in range(5):
            found = candidate(f"Use table {number}.", message=f"m{number}")
            session.apply(promotion(session, found))
        before = dict(session.curated)
    persist_gate_index(paths)
    for file in paths.gate.rglob("data_level0.bin"):
        file.write_bytes(file.read_bytes()[:5])
    gate_marker(paths).write_text("{}")
    with (
        pytest.raises(StoreDamaged, match=r"gate is damaged .* run `lessons repair`"),
        gate(tmp_path),
    ):
        pass
    report = repair_gate(paths)
    assert report.aside is not None and "run `lessons reembed`" in report.line
    re_embed_domain(settings(tmp_path))
    with gate(tmp_path) as session:
        assert dict(session.curated) == before
        assert session.nearest_vectors()[1].shape == (5, 64)
        assert session.ledger.verify() == []


def test_sound_gate_only_loses_its_marker(tmp_path: Path) -> None:
    paths = StorePaths(tmp_path)
    with gate(tmp_path):
        assert gate_marker(paths).exists()
    assert not gate_marker(paths).exists()
    gate_marker(paths).write_text("{}")
    assert repair_gate(paths).line == "curated is sound"
    assert not gate_marker(paths).exists()


def persist_gate_index(paths: StorePaths) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from lessons_loop.filter.store import open_embedded\n"
        "client = open_embedded(Path(sys.argv[1]))\n"
        "found = client.get_collection('sql-lessons', embedding_function=None)\n"
        "found.modify(configuration={'hnsw': {'sync_threshold': 3}})\n"
        "row = found.get(include=['embeddings'])\n"
        "rows = row['ids'][:1], row['embeddings'][:1]\n"
        "[found.update(ids=rows[0], embeddings=rows[1]) for _ in range(9)]\n"
        "client.close()\n"
    )
    subprocess.run([sys.executable, "-c", code, str(paths.gate)], check=True)


@pytest.mark.parametrize("repaired", [False, True])
def test_gate_repair_killed_between_its_renames_is_completed(
    tmp_path: Path, repaired: bool
) -> None:  # T-31
    kept, paths = candidate(), StorePaths(tmp_path)
    with gate(tmp_path) as session:
        session.apply(promotion(session, kept))
    (tmp_path / "gate.new").mkdir()
    shutil.copy2(paths.gate / "chroma.sqlite3", tmp_path / "gate.new")
    paths.gate.rename(tmp_path / "gate.damaged-1")
    gate_marker(paths).touch()
    if repaired:
        repair_gate(paths)
    with gate(tmp_path) as session:
        assert kept.lesson.key in session.curated
    assert not (tmp_path / "gate.new").exists()


def test_copies_of_killed_repairs_are_cleared(paths: StorePaths) -> None:
    (paths.root / "staging.copy-1" / "staging").mkdir(parents=True)
    for file in index_files(paths):
        file.write_bytes(b"torn")
    assert repair_staging(paths).outcome == "rebuilt"
    assert not list(paths.root.glob("staging.copy-*"))


@pytest.mark.parametrize("name", ["chromadb", "numpy", "tempfile"])
def test_code_in_the_store_folder_is_not_run(paths: StorePaths, name: str) -> None:
    found = paths.root / "run"  # the plugin may write into this folder
    (paths.root / f"{name}.py").write_text(f"open({str(found)!r}, 'w')\n")
    assert repair_staging(paths).outcome == "sound" and not found.exists()


@pytest.mark.parametrize("line", ["CHROMA_SERVER_HTTP_PORT=abc\n", "IS_PERSISTENT=maybe\n"])
def test_settings_in_the_store_folder_are_no_damage(paths: StorePaths, line: str) -> None:
    (paths.root / ".env").write_text(line)
    assert repair_staging(paths).outcome == "sound"


def test_environment_chromadb_refuses_is_no_damage(
    paths: StorePaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHROMA_SERVER_HTTP_PORT", "abc")
    with pytest.raises(StoreError, match=r"refuses CHROMA_SERVER_HTTP_PORT .* unset it"):
        repair_staging(paths)
    assert paths.staging.is_dir() and not list(paths.root.glob("staging.damaged-*"))
