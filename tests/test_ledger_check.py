"""Whatever is done to a ledger's file, the first line it was done to is named."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessons_loop.promote.decide.plan import next_entry
from lessons_loop.promote.ledger.check import (
    Head,
    LedgerEntry,
    Problem,
    chain_problems,
    head_problems,
    split_lines,
)
from lessons_loop.promote.records import Action, Change
from support.gate import HUMAN

LINES = 6


def written(count: int) -> list[LedgerEntry]:
    found: list[LedgerEntry] = []
    for number in range(count):
        change = Change(Action.HOLD, f"key-{number}", f"reason {number} é", HUMAN, {})
        tail = found[-1] if found else None
        found.append(next_entry(change, tail, "0" * 64, "sql", "run", "2026-11-01T08:00:00Z"))
    return found


ENTRIES = written(LINES)
HEADS = {"sql": Head(LINES, ENTRIES[-1].hash)}
RAW = [entry.line() for entry in ENTRIES]
WHOLE = b"".join(RAW)


def problems(content: bytes) -> list[Problem]:
    lines = split_lines(content)
    found = chain_problems(lines) + head_problems(lines, HEADS)
    return sorted(found, key=lambda one: one.place)


def first(content: bytes) -> int:
    return problems(content)[0].place


def joined(lines: Sequence[bytes]) -> bytes:
    return b"".join(lines)


def test_untouched_ledger_has_no_problem() -> None:
    assert problems(WHOLE) == []


@settings(max_examples=300, deadline=None)
@given(at=st.integers(0, len(WHOLE) - 1), byte=st.integers(0, 255))
def test_any_byte_changed_is_named(at: int, byte: int) -> None:
    if WHOLE[at] == byte:
        return
    edited = WHOLE[:at] + bytes([byte]) + WHOLE[at + 1 :]
    assert first(edited) == WHOLE[:at].count(b"\n") + 1


@settings(max_examples=200, deadline=None)
@given(place=st.integers(0, LINES - 1), text=st.binary(max_size=40))
def test_any_line_replaced_is_named(place: int, text: bytes) -> None:
    assert first(joined([*RAW[:place], text + b"\n", *RAW[place + 1 :]])) == place + 1


@settings(max_examples=100, deadline=None)
@given(start=st.integers(0, LINES - 1), count=st.integers(1, LINES))
def test_any_lines_deleted_are_named(start: int, count: int) -> None:
    assert first(joined([*RAW[:start], *RAW[start + count :]])) == start + 1


@settings(max_examples=100, deadline=None)
@given(place=st.integers(0, LINES), copy=st.integers(0, LINES - 1))
def test_any_line_inserted_is_named(place: int, copy: int) -> None:
    tampered = joined([*RAW[:place], RAW[copy], *RAW[place:]])
    assert first(tampered) == (place + 2 if copy == place else place + 1)


@settings(max_examples=100, deadline=None)
@given(order=st.permutations(range(LINES)))
def test_any_lines_swapped_are_named(order: list[int]) -> None:
    moved = [at for at, origin in enumerate(order) if at != origin]
    found = problems(joined([RAW[origin] for origin in order]))
    assert [one.place for one in found][:1] == [at + 1 for at in moved][:1]


@settings(max_examples=300, deadline=None)
@given(length=st.integers(0, len(WHOLE) - 1))
def test_any_truncation_is_named(length: int) -> None:
    assert first(WHOLE[:length]) == WHOLE[:length].count(b"\n") + 1


@settings(max_examples=60, deadline=None)
@given(place=st.integers(0, LINES - 1), reason=st.text(max_size=20))
def test_line_sealed_anew_is_named_at_the_next(place: int, reason: str) -> None:
    if reason == ENTRIES[place].reason:
        return
    forged = ENTRIES[place].model_copy(update={"reason": reason}).sealed()
    tampered = joined([*RAW[:place], forged.line(), *RAW[place + 1 :]])
    assert first(tampered) == min(place + 2, LINES)


@pytest.mark.parametrize("spelling", [b"%s ", b" %s", b"%s\r"])
def test_other_spelling_is_named(spelling: bytes) -> None:
    odd = spelling % RAW[2].rstrip()
    assert first(joined([*RAW[:2], odd + b"\n", *RAW[3:]])) == 3


def test_line_of_the_change_under_way_is_no_problem() -> None:
    lines = split_lines(WHOLE)
    behind = {"sql": Head(LINES - 1, ENTRIES[-2].hash)}
    assert [one.place for one in head_problems(lines, behind)] == [LINES]
    assert head_problems(lines, behind, ENTRIES[-1:]) == []
