from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lessons_loop.filter.errors import EmbeddingMismatch
from lessons_loop.filter.models import Status
from lessons_loop.promote.records import Action, Change
from support.gate import (
    HUMAN,
    HashEmbedder,
    archived,
    candidate,
    gate,
    on_folder,
    promotion,
    retirement,
    shown,
    stage,
)


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


@on_folder
def test_model_is_known_from_the_first_archived_vector_on(root: Path) -> None:
    found = candidate()
    with gate(root) as session:
        session.embed([found.lesson.embedded_text])
        row = archived(found.lesson, Status.REJECTED, candidate=found)
        session.apply(Change(Action.REJECT, row.lesson.key, "no", HUMAN, {}, archive=(row,)))
    with pytest.raises(EmbeddingMismatch), gate(root, HashEmbedder(32)):
        pass
