"""Long pastes: the decisive lines get into a part, whatever surrounds them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessons_loop.filter.pastes import VIEW_LIMIT, folded, shape, windows

DECISIVE = "Multi-Attach error for volume pvc-77: it is used by another pod"


def access(number):
    return f'10.0.0.{number % 9} - - [12/Mar/2026:09:00:{number % 60:02d}] "GET /a/{number}" 200'


def info(number):
    return f"2026-02-01 10:00:{number % 60:02d} INFO worker-{number % 4} done {number} in 7 ms"


def frame(number):
    return f"\tat com.example.Cart.step{number % 50}(Cart.java:{number})"


def event(number):
    return f"{number}m  Normal  Pulled  pod/web-{number}  image already present on machine"


@pytest.mark.parametrize("ordinary", [access, info, frame, event])
@pytest.mark.parametrize("place", [0, 17, 399, 400])
def test_decisive_line_gets_a_part(ordinary, place):
    lines = [ordinary(number) for number in range(400)]
    lines.insert(place, DECISIVE)
    assert any(DECISIVE in part for part in windows("\n".join(lines), 6))


@pytest.mark.parametrize("ordinary", [access, info, frame, event])
def test_own_words_stand_beside_the_error(ordinary):
    lines = [*(ordinary(number) for number in range(400)), "happens on every update, why?"]
    lines.insert(200, DECISIVE)
    assert any(DECISIVE in part and "why?" in part for part in windows("\n".join(lines), 6))


def test_repeated_error_is_kept_once():
    lines = [info(number) for number in range(50)]
    lines += [f"10:00:{number % 60:02d} ERROR cannot reach ledger-{number}" for number in range(50)]
    first = windows("\n".join(lines), 6)[0]
    assert first.count("cannot reach") == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (access(1), access(44)),
        (frame(1), frame(44)),
        ("pulled app:1.2.3 in 3s", "pulled app:1.10.4 in 12s"),
        ('  File "/srv/a.py", line 3, in run', '  File "/srv/b.py", line 9, in go'),
    ],
)
def test_lines_of_one_statement_have_one_shape(one, other):
    assert shape(one.strip()) == shape(other.strip())


def test_lines_of_other_words_keep_their_shape():
    assert shape("disk is full") != shape("disk is slow")
    assert len(folded(["a 1", "a 2", "b 1"]).lines) == 2


@settings(deadline=None, max_examples=40)
@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1), st.integers(1, 3000))
def test_parts_fit_the_embedder(unit, times):  # T-06
    parts = windows((unit * times)[:60_000], 6)
    assert len(parts) <= 6 and all(0 < len(part) <= VIEW_LIMIT for part in parts)


def test_ten_thousand_lines_stay_bounded():  # T-06
    text = "\n".join(f"{number} word{number} is here" for number in range(10_000))
    started = time.process_time()
    assert windows(text, 6)
    assert time.process_time() - started < 5
