"""Before a run goes on: what it recorded of answers that never came about is dropped.

A killed run may have asked part of a question; asked again, a model may say something else.
With both in the record a replay would mix them.
"""

from __future__ import annotations

import json

from lessons_loop.eval.runs.folder import RunFolder, identity
from lessons_loop.eval.runs.runner import RunPlan, turns
from lessons_loop.eval.trials import trial_seed
from lessons_loop.promote.files import replacing


def drop_unfinished(folder: RunFolder, plan: RunPlan) -> int:
    """Return how many recorded exchanges went: torn lines, and those of trials still due.

    An exchange belongs to a trial by the seed in its request. Raises OtherRun, StoreError.
    """
    if not folder.exchanges_file.exists():
        return 0
    done = {identity(one) for one in folder.trials() if not one.answer.outage}
    due = {
        trial_seed(plan.base_seed, turn.question.id, turn.arm, turn.run)
        for turn in turns(plan)
        if turn.identity not in done
    }
    gone = 0
    with folder.exchanges_file.open("rb") as lines, replacing(folder.exchanges_file) as kept:
        for line in lines:
            if _seed_of(line) in due or not line.endswith(b"\n"):
                gone += 1
            else:
                kept.write(line)
    return gone


def _seed_of(line: bytes) -> int | None:
    try:
        seed = json.loads(line)["request"]["seed"]
    except (ValueError, KeyError, TypeError):
        return None
    return seed if isinstance(seed, int) else None
