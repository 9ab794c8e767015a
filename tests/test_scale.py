"""SCALE.md says what was measured: its tables come from the kept figures, its lines fit."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.deploy.bench.figures import single
from lessons_loop.deploy.bench.scale import event_figures, lesson_figures
from lessons_loop.deploy.bench.scale_chat import chat_figures
from lessons_loop.deploy.bench.scale_fit import fitted, series_of, slope_figures
from lessons_loop.deploy.bench.scale_needs import SETUPS, Measured, Setup, needs
from lessons_loop.deploy.bench.scale_page import PAGE, read_kept, rounded, written

WORDS = PAGE.read_text("utf-8")


def test_page_is_what_the_kept_figures_say() -> None:
    assert written(WORDS, *read_kept()) == WORDS, (
        "run python -m lessons_loop.deploy.bench.scale_page: SCALE.md and scale.json differ"
    )


def test_number_changed_by_hand_is_put_right() -> None:
    spoiled = re.sub(r"^(\| a worker, memory \|) \d+ MB", r"\1 7,000 MB", WORDS, flags=re.MULTILINE)
    assert spoiled != WORDS and written(spoiled, *read_kept()) == WORDS


def test_page_tells_how_it_was_measured() -> None:
    assert "--only scale --json deploy/scale.json" in WORDS and "scale_page" in WORDS


def test_block_nobody_makes_is_an_error() -> None:
    with pytest.raises(KeyError):
        written("<!-- strange: from scale.json -->\n<!-- end -->", *read_kept())


@given(
    st.floats(0.1, 1e3),
    st.floats(0.0, 10.0),
    st.lists(st.integers(1, 10**6), min_size=2, max_size=6, unique=True),
)
def test_points_on_a_line_give_that_line(base: float, slope: float, sizes: list[int]) -> None:
    line = fitted(sizes, [base + slope * size for size in sizes])
    assert line.spread < 1.0
    assert all(
        line.at(size) == pytest.approx(base + slope * size, rel=0.01, abs=1e-3) for size in sizes
    )


def test_one_size_gives_a_flat_line() -> None:
    assert fitted([1_000], [5.0]).at(10**6) == 5.0


@pytest.mark.parametrize("values", [[9.0, 5.0], [1.0, 30.0], [2.0, 4.0]])
def test_noise_never_makes_more_cost_less(values: list[float]) -> None:
    line = fitted([1_000, 10_000], values)
    assert line.base >= 0 and line.slope >= 0 and line.at(100_000) >= max(values)


def test_point_off_the_line_is_told_as_spread() -> None:
    assert fitted([1_000, 2_000, 3_000], [10.0, 20.0, 45.0]).spread > 10


def test_sized_figures_become_series_and_slopes() -> None:
    figures = [single("load, server, 1,000 lessons", 2.0, unit="s"), single("noise", 1.0)]
    figures.append(single("load, server, 10,000 lessons", 20.0, unit="s"))
    assert dict(series_of(figures)["load, server, lessons"].points) == {1_000: 2.0, 10_000: 20.0}
    (slope,) = slope_figures(figures)
    assert slope.name == "1,000 more lessons: load, server" and round(slope.median, 6) == 2.0


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [(1.234, "MB", "1.2 MB"), (5_120.0, "MB", "5 GB"), (90.0, "s", "90 s"), (600.0, "s", "10 min")],
)
def test_numbers_are_told_with_two_digits(value: float, unit: str, told: str) -> None:
    assert rounded(value, unit) == told


@given(st.sampled_from(SETUPS), st.integers(1, 20))
def test_more_of_anything_never_needs_less(setup: Setup, factor: int) -> None:
    measured = Measured(read_kept()[1])
    for larger in (
        setup._replace(lessons=setup.lessons * factor),
        setup._replace(chats=setup.chats * factor),
    ):
        assert measured.gate(larger) >= measured.gate(setup)
        assert measured.chroma(larger) >= measured.chroma(setup)
        assert measured.snapshots(larger) >= measured.snapshots(setup)


def test_every_setup_folds_well_within_its_interval() -> None:
    measured = Measured(read_kept()[1])
    for setup in SETUPS:
        assert measured.fold_seconds(setup.staged) < 600, setup.title
        assert {"gate, memory limit", "CronJob `schedule`"} <= set(needs(measured, setup))


def test_scale_is_measured_in_small() -> None:
    figures = [*lesson_figures(40, 10), *event_figures(60), *chat_figures(4, (0, 3))]
    found = {figure.name: figure for figure in figures}
    assert found["worker memory, server, 40 lessons"].unit == "MB"
    assert found["look without a change, server, 40 lessons"].runs == 20
    assert found["fold, 60 events"].median > 0 < found["register, 60 events"].median
    assert found["append to the spool, 3 waiting"].median > 0
    kept = {name.rpartition(", ")[0] for name in series_of(read_kept()[1])}
    assert {one.what for one in series_of(figures).values()} == kept
