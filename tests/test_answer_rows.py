"""Rows of an agent's query beside those of the reference query."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.eval.grading.answer_rows import rows_of, same_rows

VALUE = st.one_of(st.none(), st.integers(-99, 99), st.sampled_from(["a", "b", ""]))
ANY_VALUE = st.one_of(
    VALUE,
    st.booleans(),
    st.floats(allow_nan=False),
    st.integers(10**300, 10**400),
    st.lists(st.booleans(), max_size=2),
)
ROWS = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.tuples(*[VALUE] * width), min_size=1, max_size=6)
)


@given(ROWS, st.randoms(use_true_random=False))
def test_order_of_rows_and_names_do_not_count(rows: list[Any], chance: random.Random) -> None:
    mixed = chance.sample(rows, len(rows))
    assert same_rows(mixed, rows, ordered=False)
    assert same_rows(mixed, rows, ordered=True) or mixed != rows


@given(ROWS, VALUE)
def test_another_row_is_another_result(rows: list[Any], value: Any) -> None:
    more = (*rows[0][:-1], value)
    assert not same_rows([*rows, more], rows, ordered=False)
    assert not same_rows(rows[1:], rows, ordered=False)


@pytest.mark.parametrize(
    ("found", "wanted", "right"),
    [
        ([(3,)], [(3.0,)], True),
        ([(0.1 + 0.2,)], [(0.3,)], True),
        ([(None,)], [(0,)], False),
        ([(None,)], [("",)], False),
        ([(None,)], [(None,)], True),
        ([("3",)], [(3,)], False),
        ([], [], True),
        ([], [(0,)], False),
        ([(1, 2)], [(2, 1)], False),
        ([("Kai", 2)], [(2, "Kai")], True),
        ([("a", 1, 2)], [("a", 2, 1)], False),
        ([("a", 1, 9), ("b", 2, 8)], [("a", 9, 1), ("b", 8, 2)], True),
        ([("a", 1), ("b", 2)], [("a", 2), ("b", 1)], False),
        ([(1,), (1,), (2,)], [(1,), (2,), (2,)], False),
        ([(1, 1)], [(1,)], False),
        ([(10**400, "a"), (2, "b")], [(1, "a"), (2, "b")], False),
    ],
)
def test_what_is_the_same(found: list[Any], wanted: list[Any], right: bool) -> None:
    assert same_rows(found, wanted, ordered=False) is right


def test_order_counts_where_asked_for() -> None:
    assert not same_rows([(1,), (2,)], [(2,), (1,)], ordered=True)


@pytest.mark.parametrize(
    ("result", "rows"),
    [
        ('{"columns":["a"],"rows":[[1],[null]]}', ((1,), (None,))),
        ('[{"a":1,"b":"x"}]', ((1, "x"),)),
        ("[[1, 2]]", ((1, 2),)),
        ('{"columns":["a"],"rows":[]}', ()),
        ('{"rows":[[true,"x"],{"a":false}]}', ((1, "x"), (0,))),
    ],
)
def test_results_are_read(result: str, rows: Any) -> None:
    found = rows_of(result)
    assert found is not None and found.rows == rows and not found.cut


@given(st.lists(st.lists(ANY_VALUE, min_size=2, max_size=2), min_size=1, max_size=3))
def test_any_result_is_compared(rows: list[Any]) -> None:
    """Whatever a tool returns is another result at most, never the end of a run."""
    found = rows_of(json.dumps({"rows": rows}))
    assert found is not None and same_rows(found.rows, found.rows, ordered=False)
    assert same_rows(found.rows, [("-", "+")] * len(rows), ordered=False) is False


@pytest.mark.parametrize("result", ["", "12", '{"error":"no"}', '{"rows":[1]}', "[" * 100_000])
def test_what_holds_no_rows(result: str) -> None:
    assert rows_of(result) is None


def test_cut_results_are_known() -> None:
    found = rows_of(json.dumps({"rows": [[1]], "truncated": "only the first 1 rows"}))
    assert found is not None and found.cut


def test_columns_of_equal_values_end_in_time() -> None:
    mixed = random.Random(7)
    wanted = [tuple(mixed.sample(range(8), 8)) for _ in range(200)]
    found = [tuple(mixed.sample(row, 8)) for row in wanted]
    assert not same_rows(found, wanted, ordered=False)
