"""A store of an earlier release: read as it is, written once it is migrated, and taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lessons_loop.filter.models import Status
from lessons_loop.filter.schema import SCHEMA
from lessons_loop.promote.errors import StoreOlder
from lessons_loop.promote.ledger.journal import Journal
from lessons_loop.promote.records import Action, Change
from support.commands import run_here
from support.gate import (
    HUMAN,
    archived,
    flags,
    gate,
    located,
    on_folder,
    shown,
)
from support.migrating import hold_sealed, marks, migrate, proven_and_sealed, sound
from support.older import PROOF, contents, put_older
from support.templates import copied

TEXTS = {
    "Bound telemetry_hours by day_key.",
    "Look serials up in equipment_machine. Then read its model.",
}
REFUSED = f"has schema 1, this release writes {SCHEMA}: run `lessons migrate`"


@pytest.fixture
def older(root: Path) -> Path:
    copied(put_older, root)
    return root


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


@on_folder
def test_schema_out_of_reach_is_a_usage_error(older: Path) -> None:
    done = run_here("migrate", "--to", "9", *flags(older))
    assert done.code == 2 and done.err.count("\n") == 1


@on_folder
def test_paused_gate_can_be_migrated(older: Path) -> None:
    assert run_here("pause", "--reason", "upgrade", *flags(older)).code == 0
    assert run_here("migrate", *flags(older)).code == 0
