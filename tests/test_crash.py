"""Crashes between any two steps: nothing lost, and a rerun ends the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lessons_loop.filter.events import Usage
from lessons_loop.promote.decide.effects import CHECKPOINTS
from lessons_loop.promote.session import GateSession, open_gate
from lessons_loop.promote.store.candidates import read_candidates
from support.driven import drive
from support.gate import (
    HashEmbedder,
    candidate,
    gate,
    located,
    promotion,
    raw_client,
    retirement,
    settings,
    shown,
    stage,
    stage_usage,
)

SWAP_STEPS = ("rebuilt", "draft", "ledger", "journal", "old curated deleted", "rebuild renamed")


def places(root: Path, key: str) -> set[str]:
    """Say where a lesson stands, read without a gate that would repair anything."""
    found = set()
    if any(item.lesson.key == key for item in read_candidates(located(root), "sql").candidates):
        found.add("staging")
    for database in ("curated", "gate"):
        with raw_client(root, database) as client:
            for collection in client.list_collections():
                if any(key in id_ for id_ in collection.get()["ids"]):
                    found.add(collection.name)
    return found


def end_state(session: GateSession) -> dict[str, Any]:
    return {
        "curated": {key: row.model_dump() for key, row in session.curated.items()},
        "archive": sorted(session.archive),
        "vectors": np.round(session.nearest_vectors()[1], 5).tolist(),
        "decisions": [(e.n, e.action, e.key) for e in session.ledger.entries()],
        "problems": session.ledger.verify(),
        "staged": [item.id for item in session.candidates()],
    }


@pytest.mark.parametrize("step", CHECKPOINTS)
def test_promotion_survives_death_at_step(root: Path, step: str) -> None:  # T-31
    found = candidate()
    with gate(root):
        pass
    stage(root, [found])
    assert drive(root, "promote", step) == 9
    assert places(root, found.lesson.key)
    assert drive(root, "promote") == 0
    with gate(root) as session:
        promotions = [e for e in session.ledger.entries() if e.action == "promote"]
        assert list(session.curated) == [found.lesson.key]
        assert [e.n for e in promotions] == [session.curated[found.lesson.key].verdict_ref]
        assert session.candidates() == []
        assert session.ledger.verify() == []
    published = shown(root)
    assert published is not None and published.header.rev == 1


@pytest.mark.parametrize("step", ["ledger", "archive", "removed", "header"])
def test_retirement_survives_death_at_step(root: Path, step: str) -> None:
    found = candidate()
    with gate(root) as session:
        session.apply(promotion(session, found))
    assert drive(root, "retire", step) == 9
    assert places(root, found.lesson.key)
    assert drive(root, "retire") == 0
    with gate(root) as session:
        assert dict(session.curated) == {}
        assert list(session.archive) == [f"{found.lesson.key}-stale"]
        assert [e.action for e in session.ledger.entries()] == ["init", "promote", "retire"]


@pytest.mark.parametrize("step", ["journal", "curated", "staged"])
def test_hits_are_counted_once_after_death(root: Path, step: str) -> None:
    found = candidate()
    with gate(root) as session:
        session.apply(promotion(session, found))
    keys = (found.lesson.key,)
    used = [Usage(keys=keys, message_ref=f"m{n}", at="2026-11-02T08:00:00Z") for n in range(3)]
    stage_usage(root, "sql", used)
    assert drive(root, "fold", step) == 9
    assert drive(root, "fold") == 0
    with gate(root) as session:
        assert session.curated[found.lesson.key].hits == 3
        assert session.usages() == []


@pytest.mark.parametrize("step", SWAP_STEPS)
def test_re_embedding_survives_death_at_step(root: Path, step: str) -> None:
    found = candidate()
    with gate(root) as session:
        session.apply(promotion(session, found))
        before = session.curated[found.lesson.key]
    assert drive(root, "re-embed", step) == 9
    assert places(root, found.lesson.key)
    assert drive(root, "re-embed") == 0
    with gate(root, HashEmbedder(32)) as session:
        assert dict(session.curated) == {found.lesson.key: before}
        assert session.nearest_vectors()[1].shape == (1, 32)
        assert session.ledger.verify() == []


def test_any_domain_finishes_what_another_left(root: Path) -> None:
    found = candidate()
    with gate(root):
        pass
    stage(root, [found])
    assert drive(root, "promote", "archive") == 9
    with open_gate(settings(root, domain="third")) as session:
        assert session.ledger.verify() == []
    with gate(root) as session:
        assert list(session.curated) == [found.lesson.key]
        assert session.candidates() == []


class Crash(BaseException):
    """Ends a session as a crash does: nothing of ours catches it."""


def run_changes(root: Path, script: list[tuple[str, int]], crashes: set[int]) -> Any:
    """Carry a script out, crashing at the given steps and opening the store again."""
    steps = 0

    def checkpoint(name: str) -> None:
        nonlocal steps
        steps += 1
        if steps in crashes:
            raise Crash(name)

    for place, (verb, number) in enumerate(script):
        while True:
            try:
                with open_gate(settings(root), checkpoint=checkpoint) as session:
                    done = sum(e.reason == f"step {place}" for e in session.ledger.entries())
                    if not done:
                        carry_out_step(session, verb, number, place)
                break
            except Crash:
                continue
    with gate(root) as session:
        return end_state(session)


def carry_out_step(session: GateSession, verb: str, number: int, place: int) -> None:
    found = candidate(f"Use view number {number} for totals.", message=f"m{place}")
    if verb == "promote":
        change = promotion(session, found)
    elif found.lesson.key in session.curated:
        change = retirement(session, found.lesson.key)
    else:
        return
    fields = {**change.__dict__, "reason": f"step {place}"}
    session.apply(type(change)(**fields))


@hypothesis_settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    script=st.lists(
        st.tuples(st.sampled_from(["promote", "retire"]), st.integers(0, 2)), min_size=1, max_size=4
    ),
    crashes=st.sets(st.integers(1, 50), max_size=4),
)
def test_any_crashes_end_in_same_state(
    tmp_path_factory: pytest.TempPathFactory,
    script: list[tuple[str, int]],
    crashes: set[int],
) -> None:
    calm = run_changes(tmp_path_factory.mktemp("calm"), script, set())
    rough = run_changes(tmp_path_factory.mktemp("rough"), script, crashes)
    assert rough["problems"] == []
    for row in (*calm["curated"].values(), *rough["curated"].values()):
        row["since"] = ""
    assert rough == calm
