from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.promote.similar.addition import extends
from lessons_loop.promote.similar.similarity import compare
from support.gate import lesson

OLD = "Read pump alarms from scada_event where class = 3."


@pytest.mark.parametrize(
    "more",
    [
        ", and join asset on asset_no for the site.",
        "; never send an empty filter.",
        ". Cap the result with LIMIT 500.",
        "; call summary_api instead when no rows have to be shown.",
    ],
)
def test_further_advice_extends(more: str) -> None:
    assert extends(OLD.rstrip(".") + more, OLD)


@pytest.mark.parametrize(
    "more",
    [
        " and read_at is null.",  # the order goes on: another order
        " when the pump runs.",  # a condition
        "; class 3 rows are alarms.",  # no instruction
        ", but read them from event_log at night.",
        "; it is deprecated, use event_log.",
        "; use event_log instead.",
        "; read pump alarms from event_log.",
        "; do not read scada_event on Mondays.",
        ", except on Mondays use event_log.",
        "; do this only after a backup.",
        "; write pump alarms down.",
    ],
)
def test_what_limits_or_replaces_extends_nothing(more: str) -> None:
    assert not extends(OLD.rstrip(".") + more, OLD)


def test_changed_or_shorter_text_extends_nothing() -> None:
    assert not extends("Read pump alarms from scada_event where class = 2; add LIMIT 5.", OLD)
    assert not extends(OLD, OLD) and not extends("Read pump alarms.", OLD)


@given(st.sampled_from(["2", "30", "33", "1.5"]), st.booleans())
def test_broader_needs_every_number_unchanged(number: str, ends: bool) -> None:
    new = OLD.replace("3", number).rstrip(".") + ("; add LIMIT 5." if ends else ".")
    assert compare(lesson(new), lesson(OLD), 0.97, 0.9).relation == "conflict"


def test_broader_relation_is_no_duplicate() -> None:
    found = compare(lesson(OLD.rstrip(".") + "; add LIMIT 5."), lesson(OLD), 0.99, 0.9)
    assert found.relation == "broader" and "LIMIT" in found.new_only
