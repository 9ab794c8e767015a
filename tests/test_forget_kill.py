"""Forgetting that is killed is finished by the next."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from support.forgetting import (
    ANNA,
    fill,
)
from support.killing import lessons, outcome_after_kills


@pytest.mark.timeout(900)  # runs and runs again, each as slow as the machine
def test_killed_forgetting_is_finished_by_the_next(tmp_path: Path) -> None:
    words = ("forget", "--user", ANNA, "--yes")
    report = outcome_after_kills(fill, partial(lessons, words), kills=3, seed=4, folder=tmp_path)
    assert report.kills > 0
    assert [one for one in report.differences if "ledger" not in one] == []
