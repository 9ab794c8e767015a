"""Kill -9 at random moments: after a rerun everything is as after an undisturbed run."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from lessons_loop.filter.events import Usage
from support.gate import candidate, gate, promotion, stage, stage_usage
from support.killing import driven, outcome_after_kills


def filled(root: Path) -> None:
    """Make a store with two curated lessons, some candidates and usage events."""
    first = [candidate(f"Use view {n} for totals.", message=f"a{n}") for n in range(2)]
    with gate(root) as session:
        for found in first:
            session.apply(promotion(session, found))
    stage(root, [candidate(f"Bound read {n} of telemetry.", message=f"b{n}") for n in range(6)])
    keys = tuple(found.lesson.key for found in first)
    used = [Usage(keys=keys, message_ref=f"m{n}", at="2026-11-02T08:00:00Z") for n in range(5)]
    stage_usage(root, "sql", used)


@pytest.mark.timeout(900)  # runs and runs again, each as slow as the machine
@pytest.mark.parametrize(
    ("action", "kills"), [("run", 4), ("together", 4), ("re-embed", 4), ("retire", 2)]
)
def test_kills_leave_no_trace(action: str, kills: int, tmp_path: Path) -> None:  # T-31
    command = partial(driven, action)
    found = outcome_after_kills(filled, command, kills=kills, seed=1, folder=tmp_path)
    assert found.differences == []
    assert found.kills > 0  # `bench.kill --kills 100` is the long form
