"""A store of an earlier release: read as it is, written once it is migrated, and taken back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lessons_loop.filter.models import Candidate, Status
from lessons_loop.filter.schema import SCHEMA
from lessons_loop.filter.text import user_reference
from lessons_loop.promote.errors import StoreOlder
from lessons_loop.promote.ledger.journal import Journal
from lessons_loop.promote.ledger.verify import verify_state
from lessons_loop.promote.records import Action, Change
from lessons_loop.promote.session import GateSession
from lessons_loop.promote.snapshot.restore_diff import plain
from lessons_loop.promote.store.migrate import Moved, Wish, migrate_store
from support.commands import run_here
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
    server_url,
    shown,
)
from support.older import PROOF, collection_of, contents, measured, older_plugin, put_older

TEXTS = {
    "Bound telemetry_hours by day_key.",
    "Look serials up in equipment_machine. Then read its model.",
}
REFUSED = f"has schema 1, this release writes {SCHEMA}: run `lessons migrate`"


@pytest.fixture
def older(root: Path) -> Path:
    put_older(root)
    return root


def migrate(root: Path, to: int = SCHEMA, **wish: Any) -> list[Moved]:
    place = flags(root)
    state = Path(place[3]) if server_url(root) else None
    return migrate_store(Wish(place[1], state, to, **wish))


def marks(root: Path) -> dict[str, Any]:
    """Return the schema every part of a store names."""
    found: dict[str, Any] = {}
    for database in ("curated", "gate", "staging"):
        with raw_client(root, database) as client:
            for one in client.list_collections():
                mark = one.metadata or {}
                found[one.name] = mark.get("schema_version", mark.get("schema"))
    state = located(root).state
    found["state"] = json.loads((state / "state.json").read_text()).get("schema")
    with gate(root, admits_older=True) as session, session.uses._reading() as file:
        assert file is not None
        found["uses"] = file.execute("pragma user_version").fetchone()[0]
    return {name: mark for name, mark in found.items() if not name.endswith("-lock")}


def sound(root: Path) -> bool:
    place = flags(root)
    found = verify_state(place[1], located(root).state)
    return found.sound and not found.notes


def hold_sealed(session: GateSession) -> Candidate:
    """Hold a candidate that carries the plugin's seal."""
    seen = candidate("Read plant_code first.", message="m50").model_copy(update={"seal": "ab12"})
    row = archived(seen.lesson, Status.HELD, candidate=seen, sightings=(seen,))
    session.apply(Change(Action.HOLD, seen.lesson.key, "alone", HUMAN, {"x": 1}, archive=(row,)))
    return seen


def proven_and_sealed(root: Path) -> tuple[str, Candidate]:
    """Put a proof and a seal into a store of this release."""
    with gate(root) as session:
        key = next(iter(session.curated))
        session.apply(measured(session, key))
        return key, hold_sealed(session)


# --- before it is migrated


def test_older_store_is_read_as_it_is(older: Path) -> None:
    before = contents(older)
    with gate(older, dry_run=True) as session:
        assert {row.lesson.text for row in session.curated.values()} == TEXTS
        assert [row.status for row in session.archive.values()].count(Status.HELD) == 1
        assert len(session.candidates()) == 1 and len(session.usages()) == 1
        assert len(list(session.uses.rows())) == 2
    assert contents(older) == before and sound(older)


@pytest.mark.parametrize(
    "words",
    [
        ["promote", "--unattended"],
        ["promote", "f7fbbaa87df0", "--reason", "x"],
        ["reject", "60fb88f41670", "--reason", "x"],
        ["demote", "60fb88f41670", "--reason", "x"],
        ["seed", "--domain", "sql"],
        ["init", "--domain", "other"],
        ["restore", "latest"],
        ["purge", "--older-than", "1d", "--yes"],
        ["snapshot", "create"],
    ],
    ids=lambda words: words[0],
)
@on_folder
def test_writing_commands_name_the_way(older: Path, words: list[str]) -> None:
    assert run_here("confirm", *flags(older)).code == 0
    before = but_notes(contents(older))
    done = run_here(*words, *flags(older))
    assert done.code == 1 and REFUSED in done.err and done.err.count("schema") == 1, done
    assert but_notes(contents(older)) == before


def but_notes(found: dict[str, Any]) -> dict[str, Any]:
    """Leave out what runs note of themselves: a failed one leaves its line too."""
    notes = ("state/summary/", "state/runs.jsonl")
    kept = {name: body for name, body in found["files"].items() if not name.startswith(notes)}
    return found | {"files": kept}


def test_gate_refuses_to_write_into_it(older: Path) -> None:
    before = contents(older)
    with pytest.raises(StoreOlder, match="run `lessons migrate`"), gate(older):
        pass
    with (
        pytest.raises(StoreOlder, match="run `lessons migrate`"),
        gate(older, dry_run=True) as session,
    ):
        hold_sealed(session)
    assert contents(older) == before


def test_init_and_publish_look_after_it(older: Path) -> None:  # an init container at each start
    for words in (["init", "--domain", "sql"], ["publish", "--domain", "sql"]):
        done = run_here(*words, *flags(older))
        assert done.code == 0, done.err
    assert marks(older)["sql-lessons"] == 1 and sound(older)
    assert {row.lesson.text for row in shown(older).lessons} == TEXTS


# --- forward


def test_migrated_store_names_its_schema_everywhere(older: Path) -> None:
    (moved,) = migrate(older)
    assert (moved.before, moved.after, moved.unread) == (1, SCHEMA, {})
    assert set(marks(older).values()) == {SCHEMA} and len(marks(older)) == 6
    with gate(older) as session:
        assert {row.lesson.text for row in session.curated.values()} == TEXTS
        assert (
            moved.snapshot and session.ledger.entries()[-1].reason == "migrated from schema 1 to 2"
        )
    assert sound(older) and {row.lesson.text for row in shown(older).lessons} == TEXTS


def test_migrating_again_changes_nothing(older: Path) -> None:
    migrate(older)
    before = contents(older)
    (moved,) = migrate(older)
    assert moved.line == f"sql: has schema {SCHEMA}, nothing to do" and contents(older) == before


def test_dry_run_writes_nothing(older: Path) -> None:  # T-32
    before = contents(older)
    (moved,) = migrate(older, dry_run=True)
    assert (moved.before, moved.after) == (1, SCHEMA) and contents(older) == before


def test_work_goes_on_after_it(older: Path) -> None:
    migrate(older)
    key, _ = proven_and_sealed(older)
    with gate(older) as session:
        assert session.curated[key].proof == PROOF
    assert sound(older)


def test_unfinished_change_of_the_earlier_release_is_finished(root: Path) -> None:
    put_older(root, pending=True)
    with pytest.raises(StoreOlder), gate(root):
        pass
    assert Journal(located(root).state).path.exists()
    migrate(root)
    with gate(root) as session:
        assert len(session.curated) == 1
    assert sound(root)


def test_snapshot_of_the_earlier_release_is_restored(older: Path) -> None:
    migrate(older)
    with gate(older) as session:
        kept = set(session.curated)
        for key in kept:
            row = session.curated[key]
            gone = archived(row.lesson, Status.STALE, curated=row)
            change = Change(
                Action.RETIRE, key, "x", HUMAN, {"x": 1}, remove=(key,), archive=(gone,)
            )
            session.apply(change)
    done = run_here("restore", "20261130T144833125077Z", *flags(older), "--reason", "back")
    assert done.code == 0, done.err
    with gate(older) as session:
        assert set(session.curated) == kept and session.holdings.header.schema_version == SCHEMA


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


@on_folder
def test_schema_out_of_reach_is_a_usage_error(older: Path) -> None:
    done = run_here("migrate", "--to", "9", *flags(older))
    assert done.code == 2 and done.err.count("\n") == 1


@on_folder
def test_paused_gate_can_be_migrated(older: Path) -> None:
    assert run_here("pause", "--reason", "upgrade", *flags(older)).code == 0
    assert run_here("migrate", *flags(older)).code == 0


# --- killed


def killed_at(root: Path, to: int, step: str) -> None:
    driver = Path(__file__).parent / "support" / "migrating_driver.py"
    done = subprocess.run([sys.executable, str(driver), str(root), str(to), step], check=False)
    assert done.returncode == 9


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
