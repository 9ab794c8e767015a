"""Folding that is killed at any moment ends as undisturbed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.folding import rating, usage, with_lessons
from support.gate import (
    on_folder,
    stage_events,
)
from support.killing import driven, outcome_after_kills


def staged_store(root: Path) -> None:
    one, other = with_lessons(root)
    keys = ((one,), (other,), (one, other))
    events: list[Any] = [usage(*keys[n % 3], message=f"m{n}") for n in range(12)]
    events += [rating(("up", "down")[n % 2], message=f"m{n}") for n in range(0, 12, 2)]
    stage_events(root, events)


@pytest.mark.timeout(900)  # runs and runs again, each as slow as the machine
@on_folder
def test_kill_at_any_moment_ends_as_undisturbed(root: Path) -> None:
    found = outcome_after_kills(staged_store, partial(driven, "fold"), kills=4, seed=3)
    assert found.differences == [] and found.kills > 0
