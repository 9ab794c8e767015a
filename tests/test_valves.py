"""Valves take whatever the settings page can store."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.valves import LessonsUserValves, LessonsValves, _warned_valves

DEFAULTS = LessonsValves()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


@pytest.mark.parametrize(
    "stored",
    [
        {"store": None},
        {"top_k": ""},
        {"min_similarity": "0,45"},
        {"old_setting_removed_in_v2": True},
        {"top_k": -3},
        {"distill_timeout_s": "abc"},
        {"recall_timeout_ms": float("inf")},
        {"recall_timeout_ms": 1e30},
        {"domains": 7},
        {},
    ],
)
def test_unusable_value_becomes_the_default(stored):  # T-10
    valves = LessonsValves(**stored)
    for name in stored:
        if name in LessonsValves.model_fields and name != "min_similarity":
            assert getattr(valves, name) == getattr(DEFAULTS, name)
    assert valves.floor() is None


@given(st.dictionaries(st.sampled_from([*LessonsValves.model_fields, "unknown"]), JSON))
def test_valves_never_raise(stored):  # T-10
    valves = LessonsValves(**stored)
    valves.domain_names()
    valves.floor()
    assert valves.top_k >= 0


@pytest.mark.parametrize("stored", [None, [], "x", 3])
def test_what_is_no_mapping_gives_defaults(stored):
    assert LessonsUserValves.model_validate(stored) == LessonsUserValves()


def test_warning_comes_once_and_names_the_field(caplog):  # T-10
    _warned_valves.clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            LessonsValves(top_k="many")
    assert [r.message for r in caplog.records] == ["valve top_k: 'many' is unusable, using 5"]


def test_secret_never_reaches_the_log(caplog):  # T-47
    _warned_valves.clear()
    with caplog.at_level(logging.WARNING):
        LessonsValves(distill_api_key=["sk-FAKE-valve"])
    assert "sk-FAKE" not in caplog.text and "distill_api_key" in caplog.text


def test_good_values_are_kept():
    valves = LessonsValves(
        domains=" SQL, ops ,,sql", min_similarity=" 0.45 ", top_k="3", priority=-7
    )
    assert valves.domain_names() == ("sql", "ops")
    assert (valves.floor(), valves.top_k, valves.priority) == (0.45, 3, -7)


def test_bad_domain_leaves_the_others():  # T-41
    assert LessonsValves(domains="sql,经验,a/b,ops\n").domain_names() == ("sql", "ops")


def test_learning_is_off_by_default():
    assert (DEFAULTS.recall_enabled, DEFAULTS.distill_enabled) == (True, False)


def test_secrets_are_in_no_repr():  # T-47
    valves = LessonsValves(chroma_token="obviously-fake", distill_api_key="obviously-fake")
    assert "obviously" not in f"{valves!r} {valves}"
    assert valves.model_dump()["chroma_token"] == "obviously-fake"
