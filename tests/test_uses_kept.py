"""The use register stays as small as the operator wants, and no thumb is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.events import Rating, Usage
from lessons_loop.promote.decay.fold import fold_events
from lessons_loop.promote.decay.uses_kept import drop_old_uses, unrated_beyond
from lessons_loop.promote.gate import Mode
from lessons_loop.promote.runs.drive import RunOptions, run_gate
from support.gate import candidate, gate, promotion, stage_events

COUNT = 6


def folded(root: Path, rated: int) -> None:
    """Make a store in which one lesson was shown six times; the use `rated` has a thumb."""
    with gate(root) as session:
        session.apply(promotion(session, candidate("Look serials up in equipment_machine.")))
        (key,) = session.curated
    uses = [
        Usage(keys=(key,), message_ref=f"m{n}", at=f"2026-11-0{n + 1}T08:00:00Z")
        for n in range(COUNT)
    ]
    thumb = Rating(message_ref=f"m{rated}", outcome="down", at="2026-11-07T08:00:00Z")
    stage_events(root, [*uses, thumb])
    with gate(root) as session:
        fold_events(session)


def remembered(root: Path) -> list[str]:
    with gate(root) as session:
        return sorted(use.message_ref for use in session.uses.rows())


def test_oldest_unrated_uses_leave(root: Path) -> None:
    folded(root, rated=0)
    with gate(root) as session:
        assert drop_old_uses(session, 2) == 3
    assert remembered(root) == ["m0", "m4", "m5"]


def test_counters_stay_when_uses_leave(root: Path) -> None:
    folded(root, rated=1)
    with gate(root) as session:
        before = [(row.hits, row.failures) for row in session.curated.values()]
        drop_old_uses(session, 1)
        fold_events(session)
        assert [(row.hits, row.failures) for row in session.curated.values()] == before == [(6, 1)]


@pytest.mark.parametrize(("mode", "left"), [(Mode.RULES, 2), (Mode.NONE, COUNT)])
def test_only_a_writing_run_drops_uses(root: Path, mode: Mode, left: int) -> None:
    folded(root, rated=0)
    with gate(root) as session:
        run_gate(session, RunOptions(mode, keep_uses=1))
    assert len(remembered(root)) == left


def test_without_a_limit_all_uses_stay(root: Path) -> None:
    folded(root, rated=0)
    with gate(root) as session:
        run_gate(session, RunOptions(Mode.RULES))
    assert len(remembered(root)) == COUNT


def test_late_thumb_on_a_dropped_use_is_no_error(root: Path) -> None:
    folded(root, rated=5)
    with gate(root) as session:
        drop_old_uses(session, 1)
    stage_events(root, [Rating(message_ref="m0", outcome="up", at="2026-11-08T08:00:00Z")])
    with gate(root) as session:
        fold_events(session)
        assert [row.successes for row in session.curated.values()] == [0]


def test_unreadable_register_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "sql.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(StoreError, match="cannot be used"):
        unrated_beyond(tmp_path / "sql.sqlite", 1)
    assert unrated_beyond(tmp_path / "missing.sqlite", 1) == []
