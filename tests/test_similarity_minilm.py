from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from lessons_loop.filter.embed import Embedder, Purpose, Vectors
from lessons_loop.filter.models import Lesson
from lessons_loop.promote.embedding.minilm import MiniLM
from lessons_loop.promote.similar.similarity import compare, nearest
from support.gate import curated, lesson

KNOWN = "Production deploys on Friday are allowed."


@pytest.fixture(scope="module")
def minilm() -> Iterator[Embedder]:
    yield MiniLM()


@pytest.mark.parametrize(
    ("new", "relation"),
    [
        # T-29, with the model people have by default
        ("Production deploys on Friday are not allowed.", "conflict"),
        ("Friday production deployments are permitted.", "related"),
        ("Production deploys on Friday are allowed. ", "duplicate"),
        ("On Friday, production deploys are allowed after 18:00.", "related"),
        ("Water the plants in the hall on Monday.", "unrelated"),
    ],
)
def test_minilm_separates_kinds_of_nearness(minilm: Embedder, new: str, relation: str) -> None:
    vectors = minilm.embed([new, KNOWN], Purpose.DOCUMENT)
    found = compare(lesson(new), lesson(KNOWN), float(vectors[0] @ vectors[1]), 0.90)
    assert found.relation == relation


@pytest.mark.parametrize(
    ("new", "together", "relation"),
    [
        (
            "Look a machine up by ILIKE on machine.serial_raw, never by serial_key.",
            "conflict",
            "conflict",
        ),
        (
            "Find a machine by machine.serial_key; do not search serial_raw with LIKE.",
            "unrelated",
            "related",
        ),
    ],
)
def test_other_trigger_hides_no_neighbour(
    minilm: Embedder, new: str, together: str, relation: str
) -> None:
    known = lesson(
        "Look a machine up by equality on machine.serial_key, never by LIKE or ILIKE on "
        "serial_raw.",
        trigger="any figure, work order or fact of one machine that is named by its serial number",
    )
    found = lesson(new, trigger="monthly reports for the sales team")
    old = curated(known)
    vector, row = minilm.embed([found.embedded_text, known.embedded_text], Purpose.DOCUMENT)
    matrix = ([old.key], row[None, :])
    near = nearest(found, vector, {old.key: old}, matrix)
    assert near is not None and near.relation == together  # trigger and text

    def texts(lessons: Sequence[Lesson]) -> Vectors:
        return minilm.embed([one.text for one in lessons], Purpose.DOCUMENT)

    near = nearest(found, vector, {old.key: old}, matrix, texts=texts)
    assert near is not None and near.relation == relation
