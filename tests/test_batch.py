"""Many decisions in one write: the same end as one by one, wherever a crash falls."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.models import Curated, Status
from lessons_loop.promote.decide.batch import merged
from lessons_loop.promote.decide.effects import CHECKPOINTS
from lessons_loop.promote.decide.plan import make_plan, next_entry
from lessons_loop.promote.exchange.intake import take_in
from lessons_loop.promote.ledger.journal import Journal, Plan
from lessons_loop.promote.records import Action, Actor, Change
from lessons_loop.promote.session import GateSession, open_gate
from lessons_loop.promote.store.curated import Header
from support.driven import drive
from support.gate import (
    HUMAN,
    archived,
    candidate,
    curated,
    gate,
    lesson,
    on_folder,
    promotion,
    retirement,
    settings,
    shown,
    stage,
)

SEVERAL = [candidate(f"Use view {n} for totals.", message=f"m{n}") for n in range(4)]


def promote_all(session: GateSession) -> None:
    for found in SEVERAL:
        session.apply(promotion(session, found))


def test_changes_of_a_batch_count_at_once(root: Path) -> None:
    with gate(root) as session:
        with session.batch():
            promote_all(session)
            assert len(session.curated) == len(session.nearest_vectors()[0]) == 4
            assert [entry.action for entry in session.ledger.entries()] == ["init"]
        assert [entry.n for entry in session.ledger.entries()] == [1, 2, 3, 4, 5]
        assert session.ledger.verify() == []


def test_a_batch_ends_as_single_changes(root: Path, tmp_path: Path) -> None:
    ends = []
    for place, together in ((root, True), (tmp_path / "single", False)):
        with gate(place) as session:
            if together:
                with session.batch():
                    promote_all(session)
                    session.apply(retirement(session, SEVERAL[0].lesson.key))
            else:
                promote_all(session)
                session.apply(retirement(session, SEVERAL[0].lesson.key))
        with gate(place) as session:
            rows = {key: row.model_dump(exclude={"since"}) for key, row in session.curated.items()}
            lines = [(entry.n, entry.action, entry.key) for entry in session.ledger.entries()]
            vectors = np.round(session.nearest_vectors()[1], 5).tolist()
            ends.append((rows, vectors, sorted(session.archive), lines))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("step", CHECKPOINTS)
def test_batch_survives_death_at_step(root: Path, step: str) -> None:  # T-31
    with gate(root):
        pass
    stage(root, SEVERAL)
    assert drive(root, "together", step) == 9
    assert drive(root, "together") == 0
    with gate(root) as session:
        promoted = [e.key for e in session.ledger.entries() if e.action == "promote"]
        assert sorted(promoted) == sorted(session.curated)
        assert len(promoted) == 4 and session.candidates() == []
        assert session.ledger.verify() == []
    assert shown(root).header.rev == 4


@on_folder
@pytest.mark.parametrize("kept", [0.0, 0.3, 0.6, 0.99])
def test_torn_batch_is_all_or_nothing(root: Path, kept: float) -> None:
    with gate(root):
        pass
    stage(root, SEVERAL)
    ledger = root / "state" / "ledger.jsonl"
    before = ledger.stat().st_size
    assert drive(root, "together", "ledger") == 9
    whole = ledger.stat().st_size
    with ledger.open("r+b") as file:
        file.truncate(before + int((whole - before) * kept))
    with gate(root) as session:
        assert len(session.curated) in (0, 4)
        assert len(session.curated) + len(session.candidates()) == 4
        assert session.ledger.verify() == []
    assert drive(root, "together") == 0
    with gate(root) as session:
        assert len(session.curated) == 4


class Stop(Exception):
    """Ends a run in the middle."""


def test_what_was_decided_is_kept_at_an_error(root: Path) -> None:
    with pytest.raises(Stop), gate(root) as session, session.batch():
        promote_all(session)
        raise Stop
    with gate(root) as session:
        assert len(session.curated) == 4


@on_folder
@pytest.mark.parametrize(("step", "told"), [("payload", "not stored"), ("ledger", "completes")])
def test_failed_batch_says_what_is_stored(root: Path, step: str, told: str) -> None:
    def fail(name: str) -> None:
        if name == step:
            raise StoreError("no space left")

    with pytest.raises(StoreError, match=told), gate(root) as session:
        session.checkpoint = fail
        try:
            with session.batch():
                promote_all(session)
        finally:
            with pytest.raises(StoreError, match="run again"):
                session.apply(promotion(session, candidate("Use port 22.", message="m9")))
    with gate(root) as session:
        assert len(session.curated) == (0 if step == "payload" else 4)
        assert session.ledger.verify() == []


def test_seeds_are_taken_in_together(root: Path) -> None:
    seeds = [(lesson(f"Use port {n}."), f"s{n}") for n in range(5)]
    writes = []
    with open_gate(settings(root), checkpoint=writes.append) as session:
        writes.clear()
        take_in(session, seeds, Actor(kind="seed", name="sql"))
        assert writes.count("journal") == 1 and len(session.curated) == 5


def test_journal_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    made = plan_of(Change(Action.HOLD, "k", "r", HUMAN, {}, archive=(archived(lesson()),)))
    old = json.loads(made.model_dump_json())
    old["entry"] = old.pop("entries")[0]
    (tmp_path / "journal.json").write_text(json.dumps(old))
    assert Journal(tmp_path).recover(made.entry) == made


def plan_of(change: Change, held: dict[str, Curated] | None = None) -> Plan:
    header = Header(domain="sql", state_id="s", state_dir="d")
    entry = next_entry(change, None, "0" * 64, "sql", "run", "now")
    return make_plan(change, entry, header, held or {}, lambda _: None)


STEPS = st.lists(
    st.tuples(st.sampled_from(["new", "count", "remove"]), st.integers(0, 3)), max_size=12
)


@given(steps=STEPS)
def test_merged_plans_end_as_one_by_one(steps: list[tuple[str, int]]) -> None:
    rows = {n: curated(lesson(f"Use port {n}.")) for n in range(4)}
    plans, held = [], {}
    for verb, number in steps:
        row = rows[number]
        if verb == "new" and row.key not in held:
            fields = {"put": (row,), "vectors": np.eye(1, 4, number, dtype=np.float32)}
            held[row.key] = row
        elif verb == "count" and row.key in held:
            row = rows[number] = row.model_copy(update={"hits": row.hits + 1})
            fields = {"put": (row,)}
        elif verb == "remove" and held.pop(row.key, None):
            fields = {"remove": (row.key,), "archive": (archived(row.lesson, Status.STALE),)}
        else:
            continue
        plans.append(plan_of(Change(Action.RETIRE, "", "r", HUMAN, {}, **fields), dict(held)))
    if plans:
        assert outcome([merged(plans)]) == outcome(plans)


def outcome(plans: list[Plan]) -> tuple[dict[str, object], set[str]]:
    """Return what a store holds after the plans: rows with their vectors, archived ids."""
    stored: dict[str, tuple[object, str | None]] = {}
    gone: set[str] = set()
    for plan in plans:
        for row in plan.put:
            known = stored.get(row.id, (None, None))[1]
            stored[row.id] = row.record, row.vector or known
        for key in plan.remove:
            stored.pop(key, None)
        gone |= {row.id for row in plan.archive}
    return dict(stored), gone
