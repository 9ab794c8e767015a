"""Compare the rows an agent's query returned with those of a reference query.

Column names do not count, nor does the order of rows unless asked for. Columns may change
places where that cannot mix anything up: in a result of one row two figures keep their order,
a name and a figure need not; in several rows every order that makes all rows equal is taken.
Whole numbers equal floats, NULL equals NULL only, text is compared to the letter, white space at
its ends aside. A result the tool cut off cannot be compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any, NamedTuple

from lessons_loop.eval.grading.check_forms import Tolerance

Row = tuple[Any, ...]
FLOAT_NOISE = Tolerance(Decimal("1e-9"), relative=True)
"""Sums of floats in another order differ in the last digits."""
_COLUMNS_MOVED = 8
"""Of results with more columns the order counts."""
_ORDERS_TRIED = 200
"""Columns of equal values fit everywhere: eight of them in 40,320 orders."""


class Returned(NamedTuple):
    """What a tool returned."""

    rows: tuple[Row, ...]
    cut: bool
    """The tool says that it left rows out."""


def rows_of(result: str) -> Returned | None:
    """Return the rows in a tool's result, None where it holds none: {"columns", "rows"}.

    A list of rows and a list of objects are read too.
    """
    try:
        found = json.loads(result)
    except (ValueError, RecursionError):
        return None
    cut = isinstance(found, Mapping) and bool(found.get("truncated"))
    listed = found.get("rows") if isinstance(found, Mapping) else found
    if not isinstance(listed, list):
        return None
    rows = [_row(one) for one in listed]
    return None if None in rows else Returned(tuple(row for row in rows if row is not None), cut)


def _row(one: Any) -> Row | None:
    values = list(one.values()) if isinstance(one, Mapping) else one
    if not isinstance(values, list):
        return None
    # a server with booleans says true where SQLite, the reference, says 1
    return tuple(int(value) if isinstance(value, bool) else value for value in values)


def same_rows(
    found: Sequence[Row], wanted: Sequence[Row], *, ordered: bool, within: Tolerance | None = None
) -> bool:
    """Say whether two results are the same."""
    if len(found) != len(wanted):
        return False
    if not wanted:
        return True
    width = len(wanted[0])
    if {len(row) for row in (*found, *wanted)} != {width}:
        return False
    tolerance = within or FLOAT_NOISE
    for order in islice(_orders(found, wanted, tolerance), _ORDERS_TRIED):
        moved = [tuple(row[place] for place in order) for row in found]
        if _equal(moved, wanted, ordered, tolerance):
            return True
    return False


def _orders(
    found: Sequence[Row], wanted: Sequence[Row], tolerance: Tolerance
) -> Iterator[tuple[int, ...]]:
    """Yield the orders of columns in which each column's values are the wanted ones."""
    width = len(wanted[0])
    straight = tuple(range(width))
    yield straight
    if not 1 < width <= _COLUMNS_MOVED:
        return
    fits = [
        [place for place in straight if _column_fits(found, place, wanted, target, tolerance)]
        for target in straight
    ]
    for order in _assignments(fits, ()):
        if order != straight and (len(wanted) > 1 or _keeps_kinds(order, wanted[0])):
            yield order


def _assignments(
    fits: Sequence[Sequence[int]], taken: tuple[int, ...]
) -> Iterator[tuple[int, ...]]:
    if len(taken) == len(fits):
        yield taken
        return
    for place in fits[len(taken)]:
        if place not in taken:
            yield from _assignments(fits, (*taken, place))


def _keeps_kinds(order: tuple[int, ...], row: Row) -> bool:
    """Say whether an order leaves the figures, and the texts, in their order."""
    kinds = [_is_number(value) for value in row]
    figures = [place for place, number in zip(order, kinds, strict=True) if number]
    texts = [place for place, number in zip(order, kinds, strict=True) if not number]
    return figures == sorted(figures) and texts == sorted(texts)


def _column_fits(
    found: Sequence[Row], place: int, wanted: Sequence[Row], target: int, tolerance: Tolerance
) -> bool:
    mine = sorted(((row[place],) for row in found), key=_sort_key)
    theirs = sorted(((row[target],) for row in wanted), key=_sort_key)
    return all(_same_row(a, b, tolerance) for a, b in zip(mine, theirs, strict=True))


def _equal(
    found: Sequence[Row], wanted: Sequence[Row], ordered: bool, tolerance: Tolerance
) -> bool:
    if ordered:
        return all(_same_row(a, b, tolerance) for a, b in zip(found, wanted, strict=True))
    left = sorted(wanted, key=_sort_key)
    for row in sorted(found, key=_sort_key):
        at = next((i for i, other in enumerate(left) if _same_row(row, other, tolerance)), None)
        if at is None:
            return False
        del left[at]
    return True


def _sort_key(row: Row) -> list[tuple[int, Decimal, str]]:
    # no floats: a whole number of 400 digits is none
    return [
        (1, Decimal(str(value)), "")
        if _is_number(value)
        else (2 if value is not None else 0, Decimal(0), str(value))
        for value in row
    ]


def _same_row(one: Row, other: Row, tolerance: Tolerance) -> bool:
    return all(_same_value(a, b, tolerance) for a, b in zip(one, other, strict=True))


def _same_value(one: Any, other: Any, tolerance: Tolerance) -> bool:
    if _is_number(one) and _is_number(other):
        wanted = Decimal(str(other))
        return abs(Decimal(str(one)) - wanted) <= tolerance.around(wanted)
    if one is None or other is None or _is_number(one) or _is_number(other):
        return one is None and other is None
    return str(one).strip() == str(other).strip()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and value == value and abs(value) != float("inf")
