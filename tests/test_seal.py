"""Sightings the plugin did not write count as nobody's, once its own are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.models import Candidate
from lessons_loop.filter.seal import is_sealed, seal_of, sealed
from lessons_loop.promote.evidence.seals import FOLDER
from lessons_loop.promote.gate import Mode, Rules
from lessons_loop.promote.records import Decision
from lessons_loop.promote.runs.drive import RunOptions, run_gate
from lessons_loop.promote.runs.report import RunReport
from support.gate import HashEmbedder, gate, stage
from support.judging import SOUND, sightings

SALT = b"obviously-fake-salt"
OTHER = "Join equipment_machine by its key when a question names the site of a machine."
EMBEDDER = HashEmbedder(256)
CHANGES: list[tuple[str, Any]] = [
    *(("message_ref", "other"), ("chat_ref", "other"), ("user_ref", "other")),
    *(("at", "2026-02-02T00:00:00Z"), ("seal", ""), ("seal", "0" * 64), ("seal", "ü")),
]


@pytest.fixture(autouse=True)
def same_salt_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LESSONS_SALT", SALT.decode())


def run(root: Path, mode: Mode = Mode.AUTO, *, dry_run: bool = False, users: int = 2) -> RunReport:
    with gate(root, EMBEDDER, dry_run=dry_run) as session:
        return run_gate(session, RunOptions(mode, Rules(min_users=users)))


def decisions(report: RunReport) -> dict[str, Decision]:
    return {outcome.lesson.text: outcome.verdict.decision for outcome in report.outcomes}


def test_seal_survives_the_row() -> None:
    (found,) = sealed(SALT, sightings(SOUND, 1))
    assert is_sealed(SALT, Candidate.from_record(found.to_record()))
    assert not is_sealed(b"another", found)


@pytest.mark.parametrize(("field", "value"), CHANGES)
def test_changed_field_breaks_the_seal(field: str, value: str) -> None:
    (found,) = sealed(SALT, sightings(SOUND, 1))
    assert not is_sealed(SALT, found.model_copy(update={field: value}))


@given(st.text("abc|, ", min_size=1, max_size=8), st.text("abc|, ", min_size=1, max_size=8))
def test_fields_never_run_into_each_other(chat: str, user: str) -> None:
    (found,) = sightings(SOUND, 1)
    both = found.model_copy(update={"chat_ref": chat, "user_ref": user})
    other = found.model_copy(update={"chat_ref": chat + user, "user_ref": ""})
    assert seal_of(SALT, both) != seal_of(SALT, other)


def test_without_any_seal_nothing_changes(root: Path) -> None:
    stage(root, sightings(SOUND, 2))
    assert decisions(run(root)) == {SOUND: Decision.PROMOTE}


def test_both_lessons_are_let_in_where_sealed(root: Path) -> None:
    stage(root, sealed(SALT, [*sightings(SOUND, 2), *sightings(OTHER, 2)]))
    assert decisions(run(root)) == {SOUND: Decision.PROMOTE, OTHER: Decision.PROMOTE}


def test_forged_sightings_are_held_beside_sealed_ones(root: Path) -> None:
    stage(root, [*sealed(SALT, sightings(SOUND, 2)), *sightings(OTHER, 3)])
    report = run(root)
    assert decisions(report) == {SOUND: Decision.PROMOTE, OTHER: Decision.HOLD}
    (held,) = [one for one in report.outcomes if one.lesson.text == OTHER]
    assert "3 sighting(s) without the plugin's seal" in held.verdict.reason


@pytest.mark.parametrize("users", [1, 2])
def test_later_runs_remember_that_seals_exist(root: Path, users: int) -> None:
    stage(root, sealed(SALT, sightings(SOUND, 2)))
    run(root)
    stage(root, sightings(OTHER, 2))
    assert decisions(run(root, users=users)) == {OTHER: Decision.HOLD}
    stage(root, [found.model_copy(update={"message_ref": "m9"}) for found in sightings(OTHER, 1)])
    assert decisions(run(root, users=users)) == {OTHER: Decision.HOLD}


def test_held_sealed_sightings_still_count(root: Path) -> None:
    one, other = sealed(SALT, sightings(SOUND, 2))
    stage(root, [one])
    assert decisions(run(root)) == {SOUND: Decision.HOLD}
    stage(root, [other])
    assert decisions(run(root)) == {SOUND: Decision.PROMOTE}


def test_dry_run_knows_the_salt_and_notes_nothing(root: Path) -> None:
    stage(root, [*sealed(SALT, sightings(SOUND, 2)), *sightings(OTHER, 2)])
    assert decisions(run(root, dry_run=True))[OTHER] is Decision.HOLD
    with gate(root, EMBEDDER) as session:
        assert not (session.state / FOLDER).exists()


def test_salt_file_serves_where_none_is_given(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LESSONS_SALT")
    with gate(root, EMBEDDER) as session:
        place = getattr(session.store, "paths", None)
        (place.salt if place else session.state / "salt").write_bytes(SALT)
    stage(root, [*sealed(SALT, sightings(SOUND, 2)), *sightings(OTHER, 2)])
    for dry_run in (True, False):
        assert decisions(run(root, dry_run=dry_run))[OTHER] is Decision.HOLD
