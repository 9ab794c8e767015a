"""An evaluation run that comes to stand after some answers, for a test that kills it there.

However slow the test that watches it, such a run is never through before it is killed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from lessons_loop.eval.runs.folder import RunFolder
from lessons_loop.eval.runs.runner import run_trials
from lessons_loop.eval.trials import Arm
from support.evaluating_runs import Told, by_seed, graded, plan_of

QUESTIONS, WORKERS = 12, 3


def run_until(root: Path, answers: int) -> None:
    """Run the plan of `evaluating_runs.run_slowly`; after so many new answers nobody answers."""
    given = iter(range(answers))

    def says(name: str, arm: Arm, seed: int) -> str:
        if next(given, None) is None:
            time.sleep(600)
        return by_seed(name, arm, seed)

    folder = RunFolder(root / "run")
    with folder.held():
        folder.begin({"seed": 7})
        run_trials(plan_of(QUESTIONS), Told(says, 0.01), graded, folder, workers=WORKERS)


if __name__ == "__main__":
    run_until(Path(sys.argv[1]), int(sys.argv[2]))
