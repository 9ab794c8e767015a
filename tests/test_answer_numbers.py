"""Figures of an answer: found in any spelling, never mistaken for another number."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lessons_loop.eval.grading.answer_numbers import figures_in, has_number
from lessons_loop.eval.grading.check_forms import Tolerance

WHOLE = st.integers(0, 9_999_999)
PLACES = st.integers(0, 3)
GROUPS = [(",", "."), (".", ","), (" ", "."), (" ", ","), ("\u202f", ","), ("\u00a0", ".")]
GROUPS += [("'", "."), ("’", "."), ("", "."), ("", ",")]
AROUND = ["It ran {} hours.", "{}", "**{}** h", "= {};", "| {} |", "`{}`", "Ergebnis: {} Stunden."]
AROUND += ["($\\boxed{{{}}}$)", "The total is {}.", "{}, which is a lot", "€{}", "{} %", "{}h"]


def spelled(value: Decimal, group: str, point: str) -> str:
    """Return a number with its digits grouped."""
    return f"{value:,f}".replace(".", "#").replace(",", group).replace("#", point)


@given(WHOLE, PLACES, st.sampled_from(GROUPS), st.sampled_from(AROUND), st.booleans())
def test_any_spelling_is_found(
    digits: int, places: int, marks: tuple[str, str], around: str, negative: bool
) -> None:
    value = Decimal(digits).scaleb(-places)
    signed = -value if negative and "€" not in around else value
    told = around.format(spelled(signed, *marks))
    assert has_number(told, signed), told


@given(WHOLE, WHOLE, PLACES, st.sampled_from(GROUPS), st.sampled_from(AROUND))
def test_another_number_never_passes(
    digits: int, other: int, places: int, marks: tuple[str, str], around: str
) -> None:
    value, wrong = Decimal(digits).scaleb(-places), Decimal(other).scaleb(-places)
    assume(all(wrong.scaleb(shift) != value for shift in (-3, -2, 0, 3)))  # percent, two readings
    assert not has_number(around.format(spelled(wrong, *marks)), value)


@pytest.mark.parametrize(
    "told",
    [
        "machine SN-004711 ran",
        "SN 4711",
        "s/n 4711",
        "serial number 4711",
        "order #4711",
        "id: 4711",
        "004711",
        "A4711 and 4711B",
        "4711-month window",
        "between 4711-4712",
        "on 4711-01-02",
        "version 4711.5.9",
        "the 4711th machine",
        "`SELECT x FROM t LIMIT 4711`",
        "```sql\nSELECT 4711\n```",
        "<think>4711</think>none",
        "4.7.11, 47.11, 14711, 47110, 4711.5, -4711",
        "footnote⁴⁷¹¹",
    ],
)
def test_what_is_no_such_figure(told: str) -> None:
    assert not has_number(told, Decimal(4711))


@pytest.mark.parametrize(
    ("told", "number"),
    [
        ("in 2024 it stood still", 2024),
        ("since 2024.", 2024),
        ("31 January 2024", 2024),
        ("on 3 May", 3),
        ("May 3, 2024", 3),
        ("12.05.2024", 12),
        ("at 12:30", 12),
        ("20240131", 20240131),
        ("that one machine", 1),
        ("the 1st machine", 1),
        ("house 12a", 12),
        ("12½ hours", 121),
        ("1⅓ hours", 1),
        ("built in the 2010s", 2010),
        ("none of them", 0),
    ],
)
def test_dates_and_articles_are_no_figures(told: str, number: int) -> None:
    assert not has_number(told, Decimal(number))


@pytest.mark.parametrize(
    ("told", "number"),
    [
        ("2024 hours", "2024"),
        ("12½ hours", "12.5"),
        ("¾ of it", "0.75"),
        ("There are three machines.", "3"),
        ("Es sind zwölf.", "12"),
        ("There is one.", "1"),
        ("12,5 %", "0.125"),
        ("- 5 machines", "5"),
        ("minus 5", "-5"),
        ("a change of −5.5 points", "-5.5"),
        ("1.2e3", "1200"),
        ("1,23,456", "123456"),
        ("５７", "57"),
        ("In May 2026 it ran 310 h", "310"),
        ("1 234,5 h on 31.01.2026", "1234.5"),
        ("10 m², 7 of them", "10"),
        ("x=-3.5", "-3.5"),
        (".5", "0.5"),
        ("it took 12s", "12"),
        ("of these 12 may be late", "12"),
    ],
)
def test_figures_as_people_write_them(told: str, number: str) -> None:
    assert has_number(told, Decimal(number))


@pytest.mark.parametrize(
    ("wanted", "told", "right"),
    [
        ("33.3", "33.33", True),
        ("33.3", "33.36", False),
        ("33.3", "33", False),
        ("12", "12.4", False),
        ("12", "12.0", True),
    ],
)
def test_decimals_count_as_far_as_given(wanted: str, told: str, right: bool) -> None:
    assert has_number(told, Decimal(wanted)) is right


@given(WHOLE, st.decimals(0, 100, places=1), st.decimals(-200, 200, places=1))
def test_tolerance_is_a_distance(number: int, allowed: Decimal, off: Decimal) -> None:
    told = f"it is {number + 1000 + off}"
    assert has_number(told, Decimal(number + 1000), Tolerance(allowed)) is (abs(off) <= allowed)


def test_tolerance_as_a_share() -> None:
    share = Tolerance(Decimal("0.01"), relative=True)
    assert has_number("1,010", Decimal(1000), share)
    assert not has_number("1,011", Decimal(1000), share)


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    assert all(figure.readings for figure in figures_in(text))
