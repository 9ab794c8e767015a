"""Misspelt words: one mistake finds the word that was meant, another word never does."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.spelling import build_spellings, intended

KNOWN = ["replica", "prometheus", "operator", "length", "cache", "namespace", "liveness", "table"]
LETTERS = st.text(string.ascii_lowercase, min_size=6, max_size=14)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("promethues", "prometheus"),
        ("operater", "operator"),
        ("lenght", "length"),
        ("cahce", "cache"),
        ("namepsace", "namespace"),
        ("livenes", "liveness"),
        ("repllica", "replica"),
        ("eplica", "replica"),
        ("cable", None),
        ("tables", "table"),
        ("cach", None),
        ("оperator", None),
        ("whatever", None),
    ],
)
def test_one_mistake_is_understood(word, meant):
    assert intended(build_spellings(KNOWN), word) == meant


@given(LETTERS, st.data())
def test_any_single_mistake_finds_the_word(word, data):
    at = data.draw(st.integers(0, len(word) - 1))
    letter = data.draw(st.sampled_from(string.ascii_lowercase))
    after = word[at + 1 :]
    mistakes = [word[:at] + after, word[:at] + letter + word[at:], word[:at] + letter + after]
    if at + 1 < len(word):
        mistakes.append(word[:at] + word[at + 1] + word[at] + word[at + 2 :])
    spellings = build_spellings([word])
    assert all(intended(spellings, m) == word for m in mistakes if m != word)


@given(st.lists(st.text(max_size=12)), st.text(max_size=12))
def test_no_text_raises(words, word):
    assert intended(build_spellings(words), word) in {*words, None}
