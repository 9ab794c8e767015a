"""The relevance floor: small talk stays under it, one odd message does not set it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.embed import Purpose
from lessons_loop.promote.embedding.calibrate import (
    LEAST_FLOOR,
    LEAST_LEXICAL_FLOOR,
    calibrate,
    floor_of,
)
from lessons_loop.promote.embedding.everyday import everyday_messages
from support.gate import HashEmbedder
from support.shelf import shelf, shelved

EMBEDDER = HashEmbedder(256)


def vectors_of(lessons):
    return EMBEDDER.embed([one.lesson.embedded_text for one in lessons], Purpose.DOCUMENT)


@given(st.floats(0.05, 0.3), st.floats(0.0, 0.08))
def test_ordinary_small_talk_stays_under_the_floor(middle, spread):
    best = np.random.default_rng(3).normal(middle, spread, 400)
    floor = floor_of(best[:60], LEAST_FLOOR)
    assert (best[60:] >= floor).mean() <= 0.05


def test_one_odd_message_does_not_set_the_floor():
    best = np.random.default_rng(3).normal(0.15, 0.04, 60)
    plain = floor_of(best, LEAST_FLOOR)
    best[0] = 0.6
    assert plain < floor_of(best, LEAST_FLOOR) < 0.4


def test_nothing_in_common_gives_the_least_floor():
    assert floor_of(np.zeros(60), LEAST_FLOOR) == LEAST_FLOOR


def test_without_vectors_only_words_have_a_floor():
    found = calibrate(shelf(), None, None)
    assert (found.floor, found.mean) == (None, ()) and found.lexical_floor >= LEAST_LEXICAL_FLOOR
    assert calibrate((), None, None).lexical_floor == LEAST_LEXICAL_FLOOR


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_lessons_have_a_floor_too(count):
    lessons = shelf()[:count]
    found = calibrate(lessons, vectors_of(lessons), EMBEDDER)
    assert found.floor is not None and LEAST_FLOOR <= found.floor < 0.6


def test_lesson_about_small_talk_raises_the_floor():
    odd = [shelved(f"Say {text}.", text) for text in everyday_messages()[:30] if len(text) < 80]
    lessons = [*shelf(), *odd]
    assert calibrate(lessons, vectors_of(lessons), EMBEDDER).floor > 0.6


def test_everyday_messages_are_two_separate_sets():
    ours, others = everyday_messages(), everyday_messages("test")
    assert len(ours) == 60 and len(others) >= 70
    assert len({*map(str.casefold, ours), *map(str.casefold, others)}) == len(ours) + len(others)
    languages = [text for text in (*ours, *others) if not text.isascii()]
    assert len(languages) >= 20
    assert all(text.strip() == text for text in (*ours, *others))
