from __future__ import annotations

from pathlib import Path

import numpy as np

from support.gate import candidate, gate, promotion, retirement, shown, stage


def test_promoted_candidate_is_curated_and_published(root: Path) -> None:
    found = candidate()
    stage(root, [found])
    with gate(root) as session:
        assert session.candidates() == [found]
        number = session.apply(promotion(session, found))
    with gate(root) as session:
        row = session.curated[found.lesson.key]
        assert session.candidates() == []
        assert (row.ledger_ref, row.verdict_ref, row.rev) == (number, number, 1)
        assert session.ledger.verify() == []
    published = shown(root)
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
    published = shown(root)
    assert published is not None and published.lessons == ()
