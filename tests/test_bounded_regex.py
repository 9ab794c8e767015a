"""Patterns of question files: searched with an end, whatever they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.eval.grading.bounded_regex import SearchTooLong, found_in, refusal_of
from support.processes import alive, soon

PATIENT = 60.0
"""Seconds for a search that ends at once: a busy machine may stop its child for some."""


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a*)*b", r"(?:x\w+)*y", "((ab?)+c*)+", "(?=(a+))*b", "(?:a|b+){2,}"]
)
def test_repeats_inside_repeats_are_refused(pattern: str) -> None:
    assert "write it flat" in refusal_of(pattern)


@pytest.mark.parametrize("pattern", [r"(?:\d{1,3},)*\d{3}", r"\bno\b.*\bopen\b", "(?:ab?){1,9}"])
def test_ordinary_patterns_are_taken(pattern: str) -> None:
    assert refusal_of(pattern) == ""


@pytest.mark.parametrize("pattern", ["(", "[z-a]", "a{2,1}", "x" * 501, r"(?P<a>"])
def test_what_is_no_pattern_is_told(pattern: str) -> None:
    assert refusal_of(pattern)


def test_endless_search_ends_and_the_next_works() -> None:
    with pytest.raises(SearchTooLong, match="not done after"):
        found_in(r"(a|ab?)*\d*\d*\d*\d*\d*x", "1" * 20_000, 0.5)
    assert found_in("B+c", "xx\nabbc", PATIENT)


def seconds_at_work(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


def test_child_ends_also_where_its_parent_was_killed() -> None:
    code = (
        "from lessons_loop.eval.grading.bounded_regex import found_in;"
        r"found_in(r'(a|ab?)*\d*\d*\d*\d*\d*x', '1' * 20_000, 5.0)"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as run:
        listed = Path(f"/proc/{run.pid}/task/{run.pid}/children")
        assert soon(listed.read_text)
        child = int(listed.read_text())
        assert soon(lambda: seconds_at_work(child) > 0.1, pause=0.05)
        run.kill()
    assert soon(lambda: not alive(child))


def test_threads_share_one_searcher() -> None:
    found: list[bool] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(found_in(f"^{n}$", f"x\n{n}\ny", PATIENT)))
        for n in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 20


@given(st.text(max_size=40))
def test_texts_arrive_whole(text: str) -> None:
    assert found_in(re.escape(text), f"({text})", PATIENT)
