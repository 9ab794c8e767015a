"""Rules that hold for any lesson: what is never dropped, and what always is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.embed import fingerprint
from lessons_loop.promote.similar.similarity import (
    MINILM_LEVEL,
    compare,
    level_of,
    on_minilm_scale,
)
from support.gate import HashEmbedder, lesson
from support.judge_replies import FIXTURES, rows_of

LESSONS = sorted(
    {
        row[side]
        for name in ("tuned.jsonl", "held_out.jsonl")
        for row in rows_of(FIXTURES / "neardup" / name)
        for side in ("a", "b")
    }
)
ANY = st.sampled_from(LESSONS)
NUMBER = re.compile(r"(?<![\w.,])\d+(?![\w.,]*\w)")
IDENTIFIER = re.compile(r"\b\w+_\w+\b")
NAME = re.compile(r"(?<=[a-z] )[A-Z][a-z]{3,}\b")
NEGATION = re.compile(r"\b(?:not|no|never|without|cannot|instead|nothing)\b", re.IGNORECASE)
UNIT = re.compile(r"\b(seconds?|minute|days?|bytes?|cents|euros|tokens)\b")


def relation(new: str, old: str) -> str:
    return compare(lesson(new), lesson(old), 0.999, 0.90).relation


def changed(text: str, pattern: re.Pattern[str], to: str) -> str:
    return pattern.sub(to, text, count=1)


@given(ANY, st.integers(2, 10**6))
def test_other_number_is_never_dropped(text: str, number: int) -> None:
    new = changed(text, NUMBER, str(number))
    assert new == text or relation(new, text) != "duplicate" or str(number) in text


@pytest.mark.parametrize(
    ("pattern", "to"),
    [(IDENTIFIER, "quite_other"), (NAME, "Otherware"), (UNIT, "fortnights")],
    ids=["identifier", "name", "unit"],
)
@given(text=ANY)
def test_other_word_that_decides_is_never_dropped(
    pattern: re.Pattern[str], to: str, text: str
) -> None:
    new = changed(text, pattern, to)
    assert new == text or relation(new, text) != "duplicate"


@given(
    st.sampled_from([text for text in LESSONS if not NEGATION.search(text)]),
    st.sampled_from(["not", "never", "no longer", "instead of"]),
    st.data(),
)
def test_added_negation_is_never_dropped(text: str, negation: str, data: st.DataObject) -> None:
    words = text.split()
    at = data.draw(st.integers(0, len(words) - 1))
    new = " ".join([*words[:at], negation, *words[at:]])
    assert relation(new, text) != "duplicate"


@given(ANY, st.sampled_from(["carefully", "backup_first", "Vienna", "42", "weekly"]), st.data())
def test_added_content_word_is_never_dropped(text: str, word: str, data: st.DataObject) -> None:
    words = text.split()
    at = data.draw(st.integers(0, len(words)))
    new = " ".join([*words[:at], word, *words[at:]])
    assert relation(new, text) != "duplicate"


@given(ANY, st.integers(1, 4), st.booleans())
def test_spacing_case_and_full_stop_do_not_matter(text: str, blanks: int, bare: bool) -> None:
    new = (" " * blanks).join(text.split())
    new = f"{new[:1].lower()}{new[1:]}".rstrip(".") if bare else new
    assert relation(new, text) == "duplicate"


@pytest.mark.parametrize(
    ("new", "wanted"),
    [
        ("KEYS blocks the server. Walk the keys with SCAN.", "duplicate"),
        ("Walk the keys with SCAN. The server blocks KEYS.", "conflict"),
        ("Walk KEYS with SCAN. The keys blocks the server.", "conflict"),
    ],
)
def test_reasons_may_stand_in_any_order(new: str, wanted: str) -> None:
    assert relation(new, "Walk the keys with SCAN; KEYS blocks the server.") == wanted


def test_order_of_orders_counts() -> None:
    assert relation("Delete the file; stop the pump.", "Stop the pump; delete the file.") != (
        "duplicate"
    )


@given(ANY, st.sampled_from([1, 2, 3, 4]))
def test_what_is_left_out_at_the_end_is_dropped_or_held(text: str, count: int) -> None:
    new = " ".join(text.split()[:-count])
    assert relation(new, text) in ("duplicate", "related", "conflict")


@given(st.floats(-1, 1), st.floats(MINILM_LEVEL, 0.95), st.floats(MINILM_LEVEL, 0.95))
def test_closer_models_need_higher_cosines(cosine: float, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert on_minilm_scale(cosine, high) <= on_minilm_scale(cosine, low) + 1e-9
    assert on_minilm_scale(1.0, one) == 1.0
    assert on_minilm_scale(cosine, MINILM_LEVEL) == pytest.approx(cosine)


def test_model_that_brings_all_texts_close_relates_no_more() -> None:
    new, old = lesson("Water the plants in pump rooms."), lesson("Read pump alarms in event_log.")
    assert compare(new, old, 0.85, 0.90).relation == "related"
    assert compare(new, old, 0.85, 0.90, level=0.75).relation == "unrelated"


def test_level_is_bounded() -> None:
    model = fingerprint(HashEmbedder(64))
    close = model.model_copy(update={"cosines": (0.99,) * 28})
    assert level_of(None) == MINILM_LEVEL <= level_of(model) < 0.1
    assert level_of(close) == 0.95
