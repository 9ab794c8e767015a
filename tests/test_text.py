"""Cleaning text: what Unicode allows and stores refuse."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.text import digest, normalise, scrub, shorten


@given(st.text(st.characters()))
def test_scrubbed_text_is_storable(text):  # T-26
    clean = scrub(text)
    clean.encode("utf-8")
    assert "\x00" not in clean
    assert scrub(clean) == clean


def test_whole_characters_stay():  # T-26
    assert scrub("🚨 漢字 é\u0301 a\udc8fb \x00") == "🚨 漢字 é\u0301 a\ufffdb "
    assert scrub("\ud83d\udea8") == "🚨"


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_normalising_twice_changes_nothing_more(text):
    assert normalise(normalise(text)) == normalise(text)


def test_digest_keeps_parts_apart():
    assert digest("ab", "c") != digest("a", "bc")


@given(st.text(), st.integers(1, 50))
def test_shortened_text_fits(text, limit):
    assert len(shorten(text, limit)) <= limit
