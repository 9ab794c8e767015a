"""The figures of the policy proxy: each call directly, through it, and what it adds."""

from __future__ import annotations

from pathlib import Path

import pytest

from lessons_loop.deploy.bench.proxy import MORE_WANTED, in_turns, proxy_figures
from lessons_loop.deploy.policy import adapted_policy
from lessons_loop.deploy.processes import StartError


def test_figures_pair_every_kind_of_call() -> None:
    figures = proxy_figures(3)
    added = [figure for figure in figures if figure.limit == MORE_WANTED]
    assert len(figures) == 12 and len(added) == 4
    assert all(figure.runs == 3 and figure.median > 0 for figure in figures[::3])


def test_pairs_take_turns_in_going_first() -> None:
    went: list[str] = []
    in_turns(lambda: went.append("a"), lambda: went.append("b"), 4)
    assert "".join(went[-8:]) == "baabbaab"


def test_policy_that_cannot_be_adapted_is_told(tmp_path: Path) -> None:
    other = tmp_path / "nginx.conf"
    other.write_text("listen 80;", "utf-8")
    with pytest.raises(StartError, match="has no 'lessons-chroma:8000'"):
        adapted_policy(1, 2, tmp_path, policy=other)
