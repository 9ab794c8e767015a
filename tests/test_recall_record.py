from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lessons_loop.filter.recall import RECORD_SHARE, select
from lessons_loop.filter.recall_index import RecallIndex, build_index
from lessons_loop.filter.store import StorePaths
from support.gate import HashEmbedder
from support.shelf import CERTS, SERIALS, TELEMETRY, put_published, shelved

EMBEDDER = HashEmbedder()
LIMITS: dict[str, Any] = {"floor": 0.3, "token_budget": 512}


def index_of(root: Path, *records: tuple[int, int]) -> RecallIndex:
    """Return lessons with these successes and failures, in this order."""
    texts = (SERIALS, TELEMETRY, CERTS)
    rows = [
        shelved(text, f"case {n}").model_copy(update={"successes": good, "failures": bad})
        for n, (text, (good, bad)) in enumerate(zip(texts, records, strict=False))
    ]
    return build_index([put_published(StorePaths(root), rows, EMBEDDER)])


def shown(index: RecallIndex, scores: list[float], top_k: int, **more: Any) -> set[int]:
    found = select(index, np.array(scores, np.float32), top_k=top_k, **LIMITS, **more)
    return {index.places[row.key] for row in found}


def test_record_decides_between_near_equals(tmp_path: Path) -> None:
    index = index_of(tmp_path, (0, 40), (40, 0))
    assert shown(index, [0.501, 0.5], top_k=1) == {1}
    assert shown(index, [0.5, 0.501], top_k=1) == {1}


@pytest.mark.parametrize("records", [[(0, 0), (0, 0)], [(5, 5), (0, 0)], [(1, 2), (2, 1)]])
def test_no_or_little_record_changes_nothing(
    tmp_path: Path, records: list[tuple[int, int]]
) -> None:
    index = index_of(tmp_path, *records)
    assert shown(index, [0.504, 0.5], top_k=1) == {0}


def test_better_fit_outweighs_any_record(tmp_path: Path) -> None:
    index = index_of(tmp_path, (0, 10**6), (10**6, 0))
    assert shown(index, [0.5 + RECORD_SHARE + 0.001, 0.5], top_k=1) == {0}


def test_record_hides_no_lesson_and_lifts_none(tmp_path: Path) -> None:
    index = index_of(tmp_path, (0, 10**6), (10**6, 0))
    assert shown(index, [0.3001, 0.2999], top_k=5) == {0}


def test_shown_lesson_stays_whatever_its_record(tmp_path: Path) -> None:
    index = index_of(tmp_path, (0, 40), (40, 0))
    assert shown(index, [0.5, 0.501], top_k=1, shown=(index.keys[0],)) == {0}
