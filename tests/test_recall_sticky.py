"""A chat's block stays byte for byte until a new lesson fits clearly better (T-03)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.recall import ROOM_MARGIN, STAY_MARGIN, select
from lessons_loop.filter.recall_index import build_index
from lessons_loop.filter.store import StorePaths
from support.gate import HashEmbedder
from support.shelf import put_published, shelved

EMBEDDER = HashEmbedder(256)
FLOOR = 0.3
TEXTS = [
    ("Read invoices from the ledger table.", "invoices of a customer"),
    ("Restart the relay after a firmware update.", "relay that does not answer"),
    ("Bake bread with rye flour at 230 degrees.", "bread that does not rise"),
    ("Rotate the ingress certificate with cert-manager.", "expired certificate"),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    paths = StorePaths(tmp_path_factory.mktemp("sticky"))
    return build_index([put_published(paths, [shelved(*pair) for pair in TEXTS], EMBEDDER)])


def recalled(index, scores, shown, top_k=2):
    """Return the positions of the lessons recalled after `shown` ones."""
    keys = [index.keys[place] for place in shown]
    found = select(
        index,
        np.array(scores, np.float32),
        floor=FLOOR,
        top_k=top_k,
        token_budget=512,
        shown=keys,
    )
    return [index.places[lesson.key] for lesson in found]


def test_near_equals_do_not_swap_places(index):
    assert recalled(index, [0.50, 0.50, 0.54, 0.53], shown=[1, 0]) == [1, 0]


def test_clearly_better_lesson_comes_in(index):
    assert 2 in recalled(index, [0.5, 0.5, 0.5 + STAY_MARGIN + 0.01, 0.0], shown=[1, 0])


def test_better_lesson_comes_behind_where_there_is_room(index):
    assert recalled(index, [0.50, 0.0, 0.51 + ROOM_MARGIN, 0.0], shown=[0]) == [0, 2]


def test_room_is_filled_without_sending_anything_away(index):
    assert recalled(index, [0.4, 0.9, 0.8, 0.7], shown=[0], top_k=3)[0] == 0


def test_few_go_for_a_new_lesson(index):
    found = recalled(index, [0.45, 0.3, 0.4, 0.45 + STAY_MARGIN + 0.01], shown=[0, 1, 2], top_k=3)
    assert found == [0, 2, 3]


def test_weak_lesson_stays_while_another_one_fits(index):
    assert recalled(index, [0.5, 0.0, 0.0, 0.0], shown=[1, 0]) == [1, 0]


def test_changed_subject_drops_the_block(index):
    assert recalled(index, [0.1, 0.1, 0.1, 0.1], shown=[1, 0]) == []
    assert recalled(index, [0.1, 0.1, 0.31, 0.1], shown=[1, 0]) == [2]


def test_lowered_limit_is_kept(index):
    assert recalled(index, [0.5, 0.5, 0.0, 0.0], shown=[0, 1, 2], top_k=1) in ([0], [1])


def test_contradicting_lesson_is_never_kept_out_by_the_margin(tmp_path):
    pair = [
        shelved("Friday deploys to production are allowed.", "deploys"),
        shelved("Friday deploys to production are not allowed.", "deploys"),
    ]
    index = build_index([put_published(StorePaths(tmp_path), pair, EMBEDDER)])
    assert recalled(index, [0.50, 0.51], shown=[0]) == [1]


@given(scores=st.lists(st.floats(0, 1, width=32), min_size=4, max_size=4), top_k=st.integers(1, 4))
def test_best_lesson_is_there_or_nearly_equalled(index, scores, top_k):
    shown = recalled(index, [0.4, 0.4, 0.4, 0.4], shown=[], top_k=top_k)
    best = int(np.argmax(np.array(scores, np.float32)))
    found = recalled(index, scores, shown, top_k)
    if scores[best] >= FLOOR:
        assert found and max(scores[place] for place in found) >= scores[best] - STAY_MARGIN - 1e-6
