"""Kill -9 at random moments, for tests: `lessons_loop.deploy.bench.killing`, and commands to kill.

    found = outcome_after_kills(make_store, command, kills=10, seed=1)
    assert found.differences == [] and found.kills >= 10

`command(folder)` must be a function at module level (of a module that a child can import,
such as one under `support/`), or a `functools.partial` of one: `partial(lessons, words)` runs
a `lessons` command, `partial(driven, action)` an action of `gate_driver.py`.
"""

from __future__ import annotations

from pathlib import Path

from lessons_loop.deploy.bench.killing import (
    KillReport,
    differences,
    end_state,
    lessons,
    outcome_after_kills,
)
from lessons_loop.promote.session import open_gate
from support.gate import HashEmbedder, settings
from support.gate_driver import ACTIONS

__all__ = [
    "KillReport",
    "differences",
    "driven",
    "end_state",
    "lessons",
    "outcome_after_kills",
]


def driven(action: str, root: Path) -> None:
    """Run an action of the gate driver on the folder, with the test embedder."""
    again = action == "re-embed"
    chosen = settings(root, HashEmbedder(32) if again else HashEmbedder())
    with open_gate(chosen, re_embedding=again) as session:
        ACTIONS[action](session)
