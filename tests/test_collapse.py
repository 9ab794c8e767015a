"""The collapse test: the gate holds where everything-in collapses; what it shows."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lessons_loop.deploy.evaluation.collapse_command import collapse_figures
from lessons_loop.eval.collapse.render import collapse_lines, collapsed, render_page, verdict
from lessons_loop.eval.collapse.rounds import split
from lessons_loop.eval.question_set import QuestionSet, questions_folder, read_question_set
from support.commands import run_here


def shipped() -> QuestionSet:
    """Return the shipped questions."""
    return read_question_set(questions_folder("sql"))


def figures(gated: int, ungated: int, proof: str = "") -> dict[str, Any]:
    """Return figures of one round that ended with so many of 80 passed."""

    def course(end: int) -> dict[str, Any]:
        one = {"number": 0, "passed": 60, "judged": 80, "curated": 33, "rate": 0.75, "proof": ""}
        one |= {"candidates": 0, "promoted": 0, "held": 0, "rejected": 0}
        two = one | {"number": 1, "passed": end, "rate": end / 80, "proof": proof}
        return {"change_points": round(100 * (end - 60) / 80, 1), "rounds": [one, two]}

    settings = {"questions": 80, "taught": 40, "held_out": 40, "users": 2, "rounds": 1}
    settings |= {"chats": 30, "error_rate": 0.1, "seed": 7, "proof": True}
    return {"settings": settings, "with_gate": course(gated), "without_gate": course(ungated)}


def test_gate_holds_where_everything_in_collapses() -> None:
    found = shipped()
    some = [one for one in found.questions if not one.control][::3]
    asked = found.model_copy(update={"questions": tuple(some)})
    shown = collapse_figures(asked, rounds=2, chats=15, error_rate=0.1, seed=7, proof=True)
    gated, ungated = shown["with_gate"], shown["without_gate"]
    assert gated["change_points"] >= -1.5 and not collapsed(shown)
    assert ungated["change_points"] <= -10
    assert gated["rounds"][0] == ungated["rounds"][0]
    assert gated["rounds"][1]["candidates"] > 0 and gated["rounds"][1]["held"] > 0
    assert ungated["rounds"][1]["curated"] > gated["rounds"][0]["curated"]


def test_no_question_is_on_both_sides() -> None:
    proper = [one for one in shipped().questions if not one.control]
    taught, held_out = split(proper)
    assert sorted(one.id for one in (*taught, *held_out)) == sorted(one.id for one in proper)
    assert abs(len(taught) - len(held_out)) <= 1
    topics = {one.topic for one in proper if sum(o.topic == one.topic for o in proper) > 1}
    assert topics <= {one.topic for one in taught} & {one.topic for one in held_out}


@pytest.mark.parametrize(
    ("gated", "ungated", "told", "bad"),
    [
        (60, 20, "the gate held: +0.0 points from start to end; without it -50.0", False),
        (59, 20, "the gate held: -1.2", False),
        (58, 20, "the gate did not hold: -2.5 points, -1.5 allowed", True),
        (60, 58, "the bad advice did no harm, this shows nothing", False),
    ],
)
def test_what_the_figures_say(gated: int, ungated: int, told: str, bad: bool) -> None:
    shown = figures(gated, ungated)
    assert told in verdict(shown) and collapsed(shown) is bad


def test_lines_and_page_say_that_a_script_stood_in() -> None:
    shown = figures(60, 20, "<script>alert(1)</script>")
    page = render_page(shown)
    assert "A script stood in" in page and "A script stood in" in "\n".join(collapse_lines(shown))
    assert "<script" not in page and "&lt;script" in page
    assert not re.search(r"(?:src|href)=|@import|url\(", page)
    assert page.count("<circle") == 4


def test_a_folder_without_questions_is_one_line() -> None:
    done = run_here("eval", "collapse", "--questions", "/nowhere")
    assert done.code == 1 and done.err.startswith("lessons: ") and done.err.count("\n") == 1
