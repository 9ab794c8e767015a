from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.promote.similar.folding import exchanges_words, may_fold, may_release
from support.gate import lesson
from support.judge_replies import FIXTURES, rows_of

PAIRS = [
    row
    for name in ("tuned.jsonl", "held_out.jsonl")
    for row in rows_of(FIXTURES / "neardup" / name)
]
OLD = (
    "Declare endpoints that call blocking libraries with def; async def stops the whole event loop."
)


@pytest.mark.parametrize("row", [row for row in PAIRS if row["label"] != "duplicate"])
def test_nothing_but_a_duplicate_may_fold(row: dict[str, str]) -> None:  # T-29
    assert not may_fold(lesson(row["b"]), lesson(row["a"]))


def test_free_wording_of_the_same_may_fold() -> None:
    free = "Blocking calls stop everything inside async def, so write such endpoints with def."
    assert may_fold(lesson(free), lesson(OLD))


@pytest.mark.parametrize(
    "text",
    [
        "Declare endpoints that call blocking libraries with async def; def stops the event loop.",
        "Declare endpoints that call blocking libraries with class; async def stops the loop.",
    ],
)
def test_exchanged_word_is_neither_folded_nor_cleared(text: str) -> None:
    new, old = lesson(text), lesson(OLD)
    assert not may_fold(new, old) and not may_release(new, old)


def test_whole_old_text_with_more_may_be_cleared() -> None:
    assert may_release(lesson(f"{OLD} Return early."), lesson(OLD))


def test_condition_left_out_may_not_fold() -> None:
    assert not may_fold(lesson("Drop old rows from it."), lesson("When idle, drop old rows."))


@given(st.sampled_from(OLD.split()))
def test_one_other_word_is_an_exchange(word: str) -> None:
    assert exchanges_words(OLD.replace(word, "quite_other"), OLD)
