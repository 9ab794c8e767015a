"""Every way a collection of staging comes about gives it the same shape."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lessons_loop.filter.events import Usage
from lessons_loop.filter.schema import MARK_FIELD, SCHEMA
from lessons_loop.filter.staging_made import STAGING_NEIGHBOURS
from lessons_loop.filter.store import StorePaths, collection_names
from lessons_loop.promote.store.candidates import delete_staged, ensure_staging, read_candidates
from lessons_loop.promote.store.compact import compact
from lessons_loop.promote.store.copied import CopiedClient
from lessons_loop.promote.store.rebuild import repair_staging
from lessons_loop.promote.store.staging_made import is_staging
from support.gate import candidate, gate, located, on_folder, raw_client, stage, stage_usage

NAMES = [collection_names("sql")[kind] for kind in ("candidates", "events")]
ROOT = Path(__file__).parents[1]


def fill(root: Path, rows: int = 3) -> None:
    stage(root, [candidate(f"Use table {n}.", message=f"m{n}") for n in range(rows)])
    stage_usage(root, "sql", [Usage(keys=("k",), message_ref="m", at="2026-11-01T08:00:00Z")])


def made_by_plugin(root: Path) -> None:
    fill(root)


def made_by_gate(root: Path) -> None:
    ensure_staging(located(root), "sql")


def made_by_gate_after_emptying(root: Path) -> None:
    ensure_staging(located(root), "sql")
    fill(root, 600)
    ids = [one.id for one in read_candidates(located(root), "sql").candidates]
    delete_staged(located(root), "sql", ids, [])


def made_by_repair(root: Path) -> None:
    ensure_staging(located(root), "sql")
    fill(root)
    paths = StorePaths(root)
    for folder in [entry for entry in paths.staging.iterdir() if entry.is_dir()]:
        (folder / "index_metadata.pickle").write_bytes(b"torn")
    assert repair_staging(paths).outcome == "rebuilt"


def made_by_forgetting(root: Path) -> None:
    ensure_staging(located(root), "sql")
    fill(root)
    assert compact(StorePaths(root).staging)


WAYS = (made_by_plugin, made_by_gate, made_by_gate_after_emptying, made_by_repair)


def shapes(root: Path) -> list[dict[str, Any]]:
    with raw_client(root, "staging") as client:
        found = [client.get_collection(name, embedding_function=None) for name in NAMES]
        return [one.configuration_json["hnsw"] for one in found]


@on_folder
@pytest.mark.parametrize("way", [*WAYS, made_by_forgetting])
def test_staging_has_one_shape(root: Path, way: Callable[[Path], None]) -> None:
    way(root)
    for shape in shapes(root):
        assert (shape["space"], shape["max_neighbors"]) == ("cosine", STAGING_NEIGHBOURS)


@on_folder
@pytest.mark.parametrize("way", [made_by_repair, made_by_forgetting])
def test_rebuilt_staging_keeps_schema_and_empty_ones(
    root: Path, way: Callable[[Path], None]
) -> None:
    ensure_staging(located(root), "law")
    way(root)
    with raw_client(root, "staging") as client:
        marks = {
            one.name: (one.metadata or {}).get(MARK_FIELD) for one in client.list_collections()
        }
    assert marks == dict.fromkeys([*NAMES, *(name.replace("sql", "law") for name in NAMES)], SCHEMA)


@on_folder
def test_forgetting_keeps_shapes_of_the_gates_own(root: Path) -> None:
    with gate(root):
        pass
    before = gates_own(root)
    assert compact(StorePaths(root).gate)
    assert gates_own(root) == before and len(before) == 2


def gates_own(root: Path) -> dict[str, Any]:
    with raw_client(root, "gate") as client:
        return {one.name: one.configuration_json for one in client.list_collections()}


@on_folder
def test_forgetting_mends_staging_of_another_shape(root: Path) -> None:
    with raw_client(root, "staging") as client:
        for name in NAMES:
            client.create_collection(name, embedding_function=None)  # l2, 16 neighbours
    fill(root)
    assert compact(StorePaths(root).staging)
    assert {(one["space"], one["max_neighbors"]) for one in shapes(root)} == {
        ("cosine", STAGING_NEIGHBOURS)
    }


def test_only_one_place_makes_staging() -> None:
    """Whatever else creates collections is a copy in memory, a lock or the gate's own."""
    making = {
        file.name
        for part in ("filter", "promote", "seeds")
        for file in (ROOT / part).rglob("*.py")
        if "create_collection(" in file.read_text("utf-8")
    }
    assert making == {"staging_made.py", "rows.py", "copied.py", "server_copy.py"}
    assert hasattr(CopiedClient, "create_collection")


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("a-lessons-candidates", True),
        ("a-lessons-events", True),
        ("a-lessons", False),
        ("a-lessons-archive", False),
        ("a-lessons-candidates-lessons", False),
    ],
)
def test_staging_is_told_by_its_name(name: str, waits: bool) -> None:
    assert is_staging(name) is waits
