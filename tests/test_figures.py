"""Which numbers a lesson may hold: those a case earned, not those that came out of it."""

from __future__ import annotations

import pytest

from lessons_loop.filter.figures import number_fault
from support.exchanges import assistant, tool, user
from support.grounds import TALK, reading


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("set it to 40", None),
        ("expect 41", "one-off-number"),
        ("divide by 100", None),
        ("keep 3 of them", None),
    ],
)
def test_where_a_number_may_stand(text: str, wanted: str | None) -> None:
    assert number_fault(text, TALK, set(), False) == wanted


def test_number_from_a_result_stays_one_off_in_later_calls() -> None:
    first = tool("sql", '[{"n": 912}]', q="SELECT max(n)")
    found = reading(user("q"), *first, *tool("sql", "ok then", q="WHERE n = 912"))
    assert number_fault("row 912", found, set(), False) == "one-off-number"


def test_units_do_not_hide_numbers() -> None:
    found = reading(user("q"), *tool("sh", "ok then", cmd="set timeout=30s"))
    assert number_fault("wait 30 seconds", found, set(), False) is None


def test_limit_an_error_named_and_a_call_kept_is_earned() -> None:
    failed = tool("http", '{"error": "limit must be <= 250"}', limit=900)
    kept = reading(user("q"), *failed, *tool("http", '{"n": 250}', limit=250))
    unheeded = reading(user("q"), *failed, *tool("http", '{"n": 80}', limit=80))
    assert number_fault("Ask for at most 250 rows.", kept, set(), False) is None
    assert number_fault("Ask for at most 250 rows.", unheeded, set(), False) == "one-off-number"


def test_limit_of_an_error_stands_when_the_accepted_cure_explains_it() -> None:
    failed = tool("http", '{"error": "Only the first 700 results are available"}', q="all")
    cured = tool("http", '{"n": 388}', q="half a year")
    told = assistant("It stops at 700, so I go by half years.")
    kept = reading(user("q"), *failed, *cured, told, user("thanks"))
    text = "Split the search so that every part has fewer than 700 results."
    assert number_fault(text, kept, set(), False) is None
    for other in ((*failed, *cured, assistant("388")), (*failed, told)):
        found = reading(user("q"), *other, user("thanks"))
        assert number_fault(text, found, set(), False) == "one-off-number"


def test_round_cap_stands_when_the_accepted_answer_calls_it_one() -> None:
    asked = (user("how many?"), *tool("search", '{"total": 10000, "also": 7313}', q="a"))
    told = reading(*asked, assistant("Counting stops at 10.000 or 7313."), user("thanks"))
    silent = reading(*asked, assistant("10.000"), user("thanks"))
    assert number_fault("The total is exactly 10000.", told, set(), True) is None
    assert number_fault("The total is exactly 10000.", silent, set(), True) == "one-off-number"
    assert number_fault("Counting stops at 7313.", told, set(), True) == "one-off-number"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Page on: only 20 entries come by default.", None),
        ("Page on: 20 entries came.", "one-off-number"),
        ("Page on: only 342 entries come by default.", "one-off-number"),
    ],
)
def test_page_sizes_are_no_counts(text: str, wanted: str | None) -> None:
    found = reading(user("list"), *tool("http", '{"n": 20, "total": 342}', path="/list"))
    assert number_fault(text, found, set(), False) == wanted


def test_number_called_a_code_by_the_error_may_stand_in_the_trigger() -> None:
    failed = tool("sms", '{"status": 400, "code": 21211, "id": 998877}', to="1 2")
    found = reading(user("q"), *failed, *tool("sms", "queued", to="12"))
    assert number_fault("refused (21211)", found, set(), True) is None
    assert number_fault("refused (998877)", found, set(), True) == "one-off-number"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("OpenSSH 8.8+ refuses it.", None),
        ("Refused since 8.8.", None),
        ("With 8.8 or later it is refused.", None),
        ("8.8 以上会被拒绝。", None),
        ("It took 8.8 hours.", "one-off-number"),
    ],
)
def test_versions_of_an_accepted_explanation_stand(text: str, wanted: str | None) -> None:
    told = assistant("OpenSSH 8.8+ refuses ssh-rsa.")
    found = reading(user("q"), *tool("ssh", "fetched", cmd="fetch"), told, user("works, thanks"))
    assert number_fault(text, found, set(), False) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Lower it; the default of 0.9 fails.", None),
        ("It took 0.9 of it.", "one-off-number"),
    ],
)
def test_a_default_that_an_error_names_stands(text: str, wanted: str | None) -> None:
    failed = tool("sh", "ValueError: less than desired utilization (0.9)", cmd="serve")
    found = reading(user("q"), *failed, *tool("sh", "started", cmd="serve --utilization 0.6"))
    assert number_fault(text, found, set(), False) == wanted


def test_numbers_before_a_unit_have_to_be_earned() -> None:
    found = reading(user("q"), *tool("sh", "Max=536870912", cmd="raise it to 600M"))
    assert number_fault("Raise it to 600M.", found, set(), False) is None
    assert number_fault("Raise it to 512M.", found, set(), False) == "one-off-number"


def test_an_outcome_that_the_user_told_is_no_setting() -> None:
    expected = user("the other system says 120331")
    counted = tool("sql", "120331", q="SELECT uniq(visitor) FROM hits")
    limited = tool("sql", "rows", q="SELECT a FROM hits LIMIT 120331")
    text = "Expect 120331 in hits."
    found = reading(user("q"), expected, *counted)
    assert number_fault(text, found, set(), False) == "one-off-number"
    assert number_fault(text, reading(user("q"), expected, *limited), set(), False) is None
