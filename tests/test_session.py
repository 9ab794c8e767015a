from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lessons_loop.filter.published import read_published
from lessons_loop.filter.store import StorePaths
from support.gate import (
    candidate,
    gate,
    promotion,
    retirement,
    stage,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


def test_promoted_candidate_is_curated_and_published(root: Path) -> None:
    paths, found = StorePaths(root), candidate()
    stage(paths, [found])
    with gate(root) as session:
        assert session.candidates() == [found]
        number = session.apply(promotion(session, found))
    with gate(root) as session:
        row = session.curated[found.lesson.key]
        assert session.candidates() == []
        assert (row.ledger_ref, row.verdict_ref, row.rev) == (number, number, 1)
        assert session.ledger.verify() == []
    published = read_published(paths.published("sql"))
    assert published is not None
    assert [item.key for item in published.lessons] == [found.lesson.key]


def test_retired_lesson_stands_in_archive_only(root: Path) -> None:
    found = candidate()
    with gate(root) as session:
        session.apply(promotion(session, found))
        vector = session.nearest_vectors()[1][0]
        session.apply(retirement(session, found.lesson.key))
    with gate(root) as session:
        assert dict(session.curated) == {}
        assert session.archive[f"{found.lesson.key}-stale"].ledger_ref == 3
        np.testing.assert_allclose(session.archive_vectors()[1], [vector], atol=1e-6)
    published = read_published(StorePaths(root).published("sql"))
    assert published is not None and published.lessons == ()
