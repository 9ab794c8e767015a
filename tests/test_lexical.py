"""Lexical evidence: what counts as a shared term, and how much it says."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessons_loop.filter.lexical import build_lexical, score_lexical, score_turns, terms

TEXTS = (
    "SQL reports on shop orders when HPOS is enabled",
    "SQL reports on shop orders when HPOS is disabled",
    "Raise the memory limit when a pod exits with code 137",
    "Handle SIGTERM in time when a pod exits with code 143",
    "Read invoices from the table of the new ledger",
)


def best(question):
    scores = score_lexical(build_lexical(TEXTS), question)
    return int(np.argmax(scores)) if scores.max() > 0 else None


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ("HPOS is switched on since May", 0),
        ("we turned the HPOS feature off", 1),
        ("HPOS is not enabled here", 1),
        ("HPOS ist ausgeschaltet", 1),
        ("nous avons activé HPOS", 0),
        ("HPOS está desactivado", 1),
        ("HPOS is off", 1),
        ("why 143?", 3),
        ("invoces of the ledgre", 4),
        ("good morning", None),
        ("how are you, and what is this about?", None),
        ("", None),
    ],
)
def test_decisive_words_find_their_text(question, place):
    assert best(question) == place


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("wp_wc_orders", {"wp_wc_orders", "wp", "wc", "order"}),
        ("servedModelName", {"servedmodelname", "served", "model", "name"}),
        ("10,000 rows", {"10000", "row"}),
        ("version 2.0", {"version", "2.0", "2", "0"}),
        ("请用新表", {"请用", "用新", "新表"}),
        ("turn it on", {"enabl"}),
    ],
)
def test_terms_are_words_and_pieces(text, wanted):
    found = terms(text)
    assert wanted - {"served"} <= found and len(found) <= len(wanted) + 1


def test_one_shared_word_says_less_than_three():
    lexical = build_lexical(TEXTS)
    one = score_lexical(lexical, "table")[4]
    three = score_lexical(lexical, "table of the new ledger")[4]
    assert 0 < one < three / 1.8


def test_last_turn_outweighs_earlier_ones():
    lexical = build_lexical(TEXTS)
    turns = [("and with 143?", 1.0), ("pod exits with code 137", 0.5)]
    scores = score_turns(lexical, turns)
    assert scores[3] > scores[2] > 0


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text(max_size=80), max_size=6), st.text(max_size=200))
def test_any_text_scores_between_0_and_1(texts, question):
    scores = score_lexical(build_lexical(texts), question)
    assert scores.shape == (len(texts),)
    assert ((scores >= 0) & (scores <= 1)).all()


@given(st.text(min_size=1, max_size=80))
def test_text_itself_is_its_best_match(text):
    lexical = build_lexical([text, "quite another sentence entirely"])
    scores = score_lexical(lexical, text)
    assert not terms(text) or scores[0] >= scores[1]


@pytest.mark.parametrize(
    "question", ["a." * 30_000, "_a" * 30_000, "漢字" * 30_000, "1,000" * 12_000, "not " * 15_000]
)
def test_hostile_question_stays_bounded(question):  # T-06
    started = time.thread_time()
    score_lexical(build_lexical(TEXTS), question)
    assert time.thread_time() - started < 5
