from __future__ import annotations

import pytest

from lessons_loop.promote.similar.opposition import contradicts, surely_contradicts
from lessons_loop.promote.similar.wording import words_of

SEED = (
    "Look a machine up by equality on machine.serial_key, never by LIKE, ILIKE or = on serial_raw; "
    "raw serials are spelled in many ways, so a text match finds the wrong machines or none."
)
HOURS = (
    "For hours find the machine by machine.serial_key, join hours on machine_id and end with LIMIT."
)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        # what is forbidden here is not advised there
        ("Look a machine up on machine.serial_key, never by a text match on serial_raw.", SEED),
        ("Find a machine with machine.serial_key; do not search serial_raw with LIKE.", SEED),
        ("Find the machine by machine.serial_key, never by a match on serial_raw.", HOURS),
        ("Send max_out, not max_in, to o-models.", "Send max_out instead of max_in to o-models."),
        ("Bound hours.day_key, never day_text.", "Bound day_key with the window's keys."),
        # what only explains why advises nothing
        ("Do not sum after the join.", "Sum before the join; a sum counts parents twice."),
        ("Never quote the key.", "Escape the key; an escaped key survives the quote."),
        # told again with other names around it
        ("Await calls in a notebook; Jupyter runs a loop.", "In notebooks, await calls directly."),
    ],
)
def test_negation_of_what_nobody_advises_is_none(new: str, old: str) -> None:
    assert not contradicts(new, old) and not contradicts(old, new)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Look a machine up by LIKE on serial_raw.", SEED),
        ("Look a machine up by ILIKE on machine.serial_raw, never on serial_key.", SEED),
        ("Do not divide Stripe amounts by 100 for JPY.", "Divide Stripe amounts by 100 for JPY."),
        ("Use logical_date; execution_date was removed.", "Use execution_date for the run."),
        ("Read orders from wp_posts.", "Read wp_orders; new orders do not appear in wp_posts."),
        ("Prefix documents with 'query: '.", "Prefix documents with 'passage: '."),
        ("Cap uploads; the default is 1m.", "Cap uploads; the default is 100m."),
        ("Await it instead of calling run_loop.", "Call run_loop instead of awaiting it."),
        ("Load staging before production.", "Load production before staging."),
        ("Never use LIKE or ILIKE.", "Use ILIKE."),
    ],
)
def test_what_one_advises_and_other_bans_contradicts(new: str, old: str) -> None:
    assert contradicts(new, old) and contradicts(old, new)


def negated(text: str) -> set[str]:
    return {word.form for word in words_of(text) if word.negated and word.form != "or"}


def test_negated_list_is_negated_to_its_end() -> None:
    assert negated("Match by id_a, never by id_b, id_c or id_d; use id_e.") == {
        "id_b",
        "id_c",
        "id_d",
    }
    assert negated("Never scan id_a, use id_b.") == {"scan", "id_a"}


def test_instead_of_ends_with_its_phrase() -> None:
    assert negated("Send id_a instead of id_b to id_c.") == {"id_b"}


def test_negation_ends_with_its_sentence() -> None:
    assert "use" not in negated("Scan it not. Use id_b.")


PAGED = "Search with /rest/search/jql and follow nextToken; /rest/search answers 410 Gone."


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Page /rest/search with startAt; one call returns a part.", PAGED),
        ("Read orders from wp_posts.", "Take wp_orders; wp_posts no longer exists."),
        ("Create MySQL tables with utf8; it is small.", "Create MySQL tables with utf8mb4."),
    ],
)
def test_identifiers_show_distant_contradiction(new: str, old: str) -> None:
    assert surely_contradicts(new, old) and surely_contradicts(old, new)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        # another scope, another condition, a ban that only explains
        ("In wp_shop version 2, sort by day_a.", "In wp_shop version 3, sort by day_a."),
        ("Call api_a once a day when mode_x is on.", "Call api_a once a day when mode_y is on."),
        ("Join work_order on its id.", "Filter in ON; in WHERE rows that have no work_order drop."),
        ("Page /rest/search/jql by token.", PAGED),
    ],
)
def test_distant_lessons_of_other_scope_contradict_not(new: str, old: str) -> None:
    assert not surely_contradicts(new, old) and not surely_contradicts(old, new)


def test_negator_without_object_negates_its_clause() -> None:
    assert "fill" in negated("Secrets are filled not in there.")
    assert {"tests", "run"} & negated("Cache it, not when tests run.")
