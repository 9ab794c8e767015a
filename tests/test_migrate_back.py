"""A store taken back to the earlier schema, forward again, and killed on the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lessons_loop.filter.models import Status
from lessons_loop.filter.schema import SCHEMA
from lessons_loop.filter.text import user_reference
from lessons_loop.promote.errors import StoreOlder
from lessons_loop.promote.records import Action, Change
from lessons_loop.promote.snapshot.restore_diff import plain
from support.commands import run_here
from support.forked import exit_code
from support.gate import (
    HUMAN,
    archived,
    candidate,
    flags,
    gate,
    located,
    on_folder,
    raw_client,
    retirement,
    shown,
)
from support.migrating import dying_migration, marks, migrate, proven_and_sealed, sound
from support.older import PROOF, collection_of, measured, older_plugin, put_older
from support.templates import copied


@pytest.fixture
def older(root: Path) -> Path:
    copied(put_older, root)
    return root


# --- back
def test_going_back_leaves_what_the_earlier_release_reads(older: Path) -> None:
    migrate(older)
    key, seen = proven_and_sealed(older)
    (moved,) = migrate(older, to=1)
    assert (moved.kept, moved.curated, moved.archived) == (2, 1, 1)
    assert moved.unread == {"prove": 1}  # that release's gate stops there; we say so
    assert set(marks(older).values()) == {1}
    plugin = older_plugin()
    with raw_client(older, "curated") as client:
        found = collection_of(client, "sql-lessons").get()
    for row in zip(found["ids"], found["documents"], found["metadatas"], strict=True):
        plugin.Curated.from_record(plugin.Record(*row))
    with gate(older, dry_run=True) as session:
        assert session.curated[key].proof == ""
        held = session.archive[f"{seen.lesson.key}-held"]
    plugin.Candidate.model_validate_json(held.candidate.model_dump_json())  # type: ignore[union-attr]
    assert sound(older)


def test_forward_again_brings_everything_back(older: Path) -> None:
    migrate(older)
    key, seen = proven_and_sealed(older)
    with gate(older) as session:
        before = dict(session.curated), dict(session.archive)
    migrate(older, to=1)
    (moved,) = migrate(older)
    assert moved.kept == 2
    with gate(older) as session:
        assert (dict(session.curated), dict(session.archive)) == before
        assert session.curated[key].proof == PROOF
        assert session.archive[f"{seen.lesson.key}-held"].sightings == (seen,)
    assert sound(older)


def test_revived_lesson_keeps_the_proof_of_today(older: Path) -> None:
    migrate(older)
    with gate(older) as session:
        key = next(iter(session.curated))
        session.apply(measured(session, key))
        session.apply(retirement(session, key))
        once = session.archive[f"{key}-stale"].curated
        assert once is not None
        row = once.model_copy(update={"since": "2026-11-30T16:00:00Z"})
        vectors = session.embed([row.lesson.embedded_text])
        session.apply(Change(Action.REVIVE, key, "x", HUMAN, {}, put=(row,), vectors=vectors))
        row = session.curated[key].model_copy(update={"proof": '{"verdict": "harmful"}'})
        session.apply(Change(Action.PROVE, key, "measured", HUMAN, {}, put=(row,)))
        before = {k: plain(row) for k, row in session.curated.items()}, dict(session.archive)
    migrate(older, to=1)
    migrate(older)
    with gate(older) as session:
        now = {k: plain(row) for k, row in session.curated.items()}, dict(session.archive)
        assert now == before and session.curated[key].proof == row.proof


def test_forgotten_values_do_not_come_back_from_an_earlier_step(older: Path) -> None:
    migrate(older)
    with gate(older) as session:
        key = next(iter(session.curated))
        session.apply(measured(session, key))
    migrate(older, to=1)
    migrate(older)
    with gate(older) as session:
        row = session.curated[key].model_copy(update={"proof": '{"verdict": "neutral"}'})
        session.apply(Change(Action.PROVE, key, "measured", HUMAN, {}, put=(row,)))
    migrate(older, to=1)
    with gate(older, dry_run=True) as session:
        last = session.ledger.payloads / f"{session.ledger.entries()[-1].payload}.json"
    (located(older).state / "payloads" / last.name).unlink()
    (moved,) = migrate(older)
    assert moved.kept == 0


@on_folder
def test_seals_kept_in_the_ledger_are_forgotten(older: Path) -> None:
    migrate(older)
    who = user_reference((older / "salt").read_bytes(), "u-1")
    seen = candidate("Read plant_code first.", message="m50", user=who)
    seen = seen.model_copy(update={"seal": "f00dfeed"})
    with gate(older) as session:
        row = archived(seen.lesson, Status.HELD, candidate=seen)
        payload: dict[str, object] = {"candidates": [seen.model_dump(mode="json")]}
        change = Change(Action.HOLD, seen.lesson.key, "x", HUMAN, payload, archive=(row,))
        session.apply(change)
    migrate(older, to=1)
    migrate(older)
    done = run_here("forget", "--user", "u-1", "--yes", *flags(older))
    assert done.code == 0 and sound(older), done.err
    left = [path for path in (older / "state").rglob("*") if path.is_file()]
    named = [path.name for path in left if b"f00dfeed" in path.read_bytes()]
    assert named == [] and not any(seen.id.encode() in path.read_bytes() for path in left)


def test_going_back_says_what_it_means(older: Path) -> None:
    migrate(older)
    proven_and_sealed(older)
    done = run_here("migrate", "--to", "1", *flags(older))
    said = " ".join(done.out.split())
    assert done.code == 0 and "2 proofs and seals kept in the ledger" in said
    assert "1 ledger line `prove`: a gate of schema 1 stops there; its plugins read on" in said
    assert f"this release now only reads the store; `lessons migrate` takes it to {SCHEMA}" in said
    with pytest.raises(StoreOlder), gate(older):
        pass


# --- killed
def killed_at(root: Path, to: int, step: str) -> None:
    assert exit_code(dying_migration, str(root), str(to), step) == 9


def rows_of(root: Path) -> dict[str, Any]:
    """Return what the store holds, without what differs between two runs of the same change."""
    with gate(root, dry_run=True) as session:
        header = session.holdings.header
        return {
            "curated": dict(session.curated),
            "archive": dict(session.archive),
            "schema": (header.schema_version, header.rev),
            "decisions": [(e.n, e.action, e.reason) for e in session.ledger.entries()],
            "published": [row.key for row in shown(root).lessons],
        }


@on_folder
def test_kill_at_any_step_is_made_good_by_running_again(older: Path, tmp_path: Path) -> None:
    import shutil

    migrate(older)
    proven_and_sealed(older)
    calm = tmp_path / "calm"
    shutil.copytree(older, calm)
    migrate(calm, to=1)
    wanted = rows_of(calm)
    for step in ("ledger", "archive", "header"):
        trial = tmp_path / step
        shutil.copytree(older, trial)
        killed_at(trial, 1, step)
        migrate(trial, to=1)
        found = rows_of(trial)
        assert found == wanted, step
        assert sound(trial), step


@on_folder
def test_killed_on_the_way_forward_too(older: Path) -> None:
    killed_at(older, SCHEMA, "journal")
    assert json.loads((older / "state" / "state.json").read_text())["schema"] == SCHEMA
    (moved,) = migrate(older)
    assert moved.before in (1, SCHEMA) and set(marks(older).values()) == {SCHEMA}
    assert sound(older)
