from __future__ import annotations

from pathlib import Path

import pytest

from lessons_loop.promote.gate import Mode
from lessons_loop.promote.runs.drive import RunOptions, run_gate
from support import judging_driver
from support.forked import exit_code
from support.gate import HashEmbedder, candidate, gate, stage
from support.judging import OTHER, SOUND, sightings

POOL = "The pool is 40."


@pytest.mark.parametrize("step", ["payload", "draft", "ledger", "journal", "cleared"])
def test_killed_run_ends_alike_after_rerun(root: Path, step: str) -> None:  # T-31
    seen = [*sightings(SOUND, 2), *sightings(OTHER, 2), candidate(POOL, message="m-9")]
    stage(root, seen)
    assert exit_code(judging_driver.main, str(root), step) == 9
    with gate(root, HashEmbedder(256)) as session:
        waiting = {found.lesson.text for found in session.candidates()}
        kept = {row.lesson.text for row in (*session.curated.values(), *session.archive.values())}
        assert waiting | kept == {SOUND, OTHER, POOL}
        run_gate(session, RunOptions(Mode.AUTO))
        assert {row.lesson.text for row in session.curated.values()} == {SOUND, OTHER}
        assert [row.lesson.text for row in session.archive.values()] == [POOL]
        assert session.candidates() == [] and session.ledger.verify() == []
        decided = [entry.key for entry in session.ledger.entries() if entry.action != "init"]
        assert len(decided) == len(set(decided)) == 3
