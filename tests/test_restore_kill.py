"""Restore under kill -9, and counters over any order of uses, folds and restores."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lessons_loop.promote.decay.fold import fold_events
from lessons_loop.promote.session import GateSession
from lessons_loop.promote.snapshot.kept import create_snapshot, read_snapshot
from lessons_loop.promote.snapshot.restore import Wanted, restore
from support.gate import HUMAN, candidate, gate, promotion, stage, stage_usage
from support.killing import lessons, outcome_after_kills
from support.restoring import turn_over
from support.snapshots import fill, snapshots, used


def spoiled(root: Path) -> None:
    """A store whose last run was a bad one."""
    fill(root)
    stage(root, [candidate(f"Use view number {n}.", message=f"k{n}") for n in range(30)])
    turn_over(root)


@pytest.mark.timeout(900)  # runs and runs again, each as slow as the machine
@pytest.mark.parametrize("words", [("restore", "latest"), ("restore", "latest", "--exact")])
def test_killed_restore_ends_as_an_undisturbed_one(words: tuple[str, ...]) -> None:  # T-31
    found = outcome_after_kills(spoiled, partial(lessons, words), kills=4, seed=len(words))
    assert found.differences == [] and found.kills


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("use"), st.integers(0, 5)),
        st.tuples(st.sampled_from(["fold", "take"]), st.just(0)),
        st.tuples(st.just("restore"), st.integers(0, 9)),
    ),
    min_size=3,
    max_size=12,
)


@hypothesis_settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
def test_every_answer_counts_once_after_any_restores(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    root = tmp_path_factory.mktemp("counts") / "store"
    key = candidate().lesson.key
    with gate(root) as session:
        session.apply(promotion(session, candidate()))
        create_snapshot(session)
    seen: set[int] = set()
    for verb, number in [*steps, ("fold", 0)]:
        if verb == "use":
            seen.add(number)
            stage_usage(root, "sql", [used(key, f"u{number}")])
            continue
        with gate(root) as session:
            carry_out(root, session, verb, number)
    with gate(root) as session:
        row = session.curated[key]
        assert row.hits == len(seen) == len(list(session.uses.rows()))
        assert session.usages() == [] and session.ledger.verify() == []


def carry_out(root: Path, session: GateSession, verb: str, number: int) -> None:
    if verb == "fold":
        fold_events(session)
    elif verb == "take":
        create_snapshot(session)
    else:
        paths = snapshots(root)[1:]  # the first one is of before the promotion
        path = paths[number % len(paths)]
        restore(session, Wanted(path, read_snapshot(path), snapshots(root)), HUMAN)
