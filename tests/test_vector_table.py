"""The table of unit rows: it agrees with a dictionary, and what was handed out stays."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.promote.embedding.vector_table import VectorTable

KEYS = st.lists(st.sampled_from("abcdefgh"), max_size=5)


def row(number: int) -> np.ndarray:
    return np.full(3, number, dtype=np.float32)


@given(st.lists(st.tuples(st.booleans(), KEYS), max_size=12))
def test_any_changes_agree_with_a_dictionary(steps: list[tuple[bool, list[str]]]) -> None:
    table, plain = VectorTable({"a": row(1)}, 3), {"a": row(1)}
    handed = []
    for number, (adds, keys) in enumerate(steps, start=2):
        handed.append((table.matrix(), table.matrix()[1].copy()))
        if adds:
            table.put(dict.fromkeys(keys, row(number)))
            plain |= dict.fromkeys(keys, row(number))
        else:
            table.remove(keys)
            plain = {key: found for key, found in plain.items() if key not in keys}
    names, rows = table.matrix()
    assert names == tuple(plain) and rows.tolist() == [one.tolist() for one in plain.values()]
    assert all((found == copy).all() for (_, found), copy in handed)
    assert all((table.get(key) is not None) == (key in plain) for key in "abcdefgh")


def test_first_row_of_an_empty_table_sets_the_dimension() -> None:
    table = VectorTable({}, 0)
    table.put({"a": row(1)})
    assert table.matrix()[1].shape == (1, 3)
