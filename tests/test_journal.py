from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lessons_loop.filter.models import Status
from lessons_loop.promote.decide.effects import carry_out
from lessons_loop.promote.decide.plan import make_plan, next_entry, open_holds
from lessons_loop.promote.ledger.journal import Journal, Plan
from lessons_loop.promote.records import Action, Change
from lessons_loop.promote.session import GateSession
from lessons_loop.promote.store.curated import Header
from lessons_loop.promote.store.rows import read_rows
from support.gate import HUMAN, archived, candidate, curated, gate, lesson, promotion

HEADER = Header(domain="sql", state_id="s", state_dir="d")


def plan(reason: str = "r") -> Plan:
    change = Change(Action.HOLD, "k", reason, HUMAN, {}, archive=(archived(lesson()),))
    entry = next_entry(change, None, "0" * 64, "sql", "run", "now")
    return make_plan(change, entry, HEADER, {}, lambda _: None)


def test_draft_without_its_ledger_line_is_void(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.draft(plan())
    assert journal.recover(None) is None
    assert list(tmp_path.iterdir()) == []


def test_draft_with_its_ledger_line_is_carried_out(tmp_path: Path) -> None:
    journal, drafted = Journal(tmp_path), plan()
    journal.draft(drafted)
    assert journal.recover(drafted.entry) == drafted
    assert journal.recover(drafted.entry) == drafted
    journal.clear()
    assert journal.recover(drafted.entry) is None


def test_draft_of_another_line_is_void(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.draft(plan("one"))
    assert journal.recover(plan("other").entry) is None


def contents(session: GateSession) -> dict[str, Any]:
    found = {}
    for client in (session.clients.curated, session.clients.gate):
        for collection in client.list_collections():
            if not collection.name.endswith("-lock"):
                found[collection.name] = ([*read_rows(collection)], collection.metadata)
    return found


def test_replaying_twice_changes_nothing(root: Path) -> None:
    plans: list[Plan] = []
    with gate(root) as session:
        settle = session._settle

        def keep(plan: Plan) -> None:
            plans.append(plan)
            settle(plan)

        session._settle = keep  # type: ignore[method-assign]
        session.apply(promotion(session, candidate()))
        before = contents(session)
        for _ in range(2):
            carry_out(session.clients, session.store, plans[-1])
            assert contents(session) == before


@hypothesis_settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=st.text(
        min_size=1,
        max_size=80,
        alphabet=st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]),
    ).filter(str.strip),
    hits=st.integers(0, 2**53 - 1),
)
def test_any_plan_survives_the_disk(
    tmp_path_factory: pytest.TempPathFactory, text: str, hits: int
) -> None:
    row = curated(lesson(text), hits=hits)
    change = Change(Action.FOLD, "", text, HUMAN, {}, put=(row,))
    entry = next_entry(change, None, "0" * 64, "sql", "run", "now")
    made = make_plan(change, entry, HEADER, {row.key: row}, lambda _: None)
    journal = Journal(tmp_path_factory.mktemp("state"))
    journal.draft(made)
    assert journal.recover(entry) == made


def test_header_survives_as_collection_metadata(root: Path) -> None:
    with gate(root) as session:
        session.apply(promotion(session, candidate()))
        session.publish()
        stored = session.holdings.header
    with gate(root) as session:
        assert session.holdings.header == stored
        assert (stored.rev, stored.head.n) == (1, 2)
        assert stored.fingerprint == session.holdings.model


@pytest.mark.parametrize(
    ("later", "still_open"),
    [(None, True), (Status.REJECTED, False), (Status.SUPERSEDED, False)],
)
def test_hold_is_open_until_decided(later: Status | None, still_open: bool) -> None:
    rows = [archived(lesson(), Status.HELD, ledger_ref=3)]
    if later:
        rows.append(archived(lesson(), later, ledger_ref=5))
    assert bool(open_holds({}, rows)) is still_open
    assert open_holds({lesson().key: curated(lesson())}, rows) == []


def test_earlier_rejection_does_not_close_a_later_hold() -> None:
    rows = [archived(lesson(), ledger_ref=2), archived(lesson(), Status.HELD, ledger_ref=3)]
    assert open_holds({}, rows) == [rows[1]]
