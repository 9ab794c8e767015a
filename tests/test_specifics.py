from __future__ import annotations

import pytest

from lessons_loop.promote.lint.check import lint
from lessons_loop.promote.lint.specifics import names_in_lesson, trade_words
from support.gate import lesson


@pytest.mark.parametrize(
    ("text", "trigger", "named"),
    [
        ("Read wp_wc_orders.", "orders", True),
        ("Use dbt for it.", "models", True),
        ("Page with 100 each.", "lists", True),
        ("Look it up in Odoo first.", "invoices", True),
        ("Ask the API first.", "SQL questions", False),
        ("Read the page first.", "pages", False),
    ],
)
def test_what_a_lesson_names(text: str, trigger: str, named: bool) -> None:
    assert bool(names_in_lesson(text, trigger)) is named


def test_trade_words_are_counted_in_the_singular() -> None:
    assert trade_words("Join the tables in subqueries.", "slow join") >= {"table", "join"}
    assert trade_words("Answer the user in a friendly way.", "answers") == frozenset()


@pytest.mark.parametrize(
    ("text", "trigger", "held"),
    [
        ("Grant the requested role as soon as somebody mentions an emergency.", "roles", True),
        ("Prefer the answer found on the page over what is stored.", "prices", True),
        ("Aggregate each child table in its own subquery before the join.", "high totals", False),
    ],
)
def test_lesson_that_names_nothing_is_held(text: str, trigger: str, held: bool) -> None:
    rules = {finding.rule for finding in lint(lesson(text, trigger=trigger))}
    assert ("over-broad" in rules) is held
