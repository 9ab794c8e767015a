"""Values of an exchange that name one case, and what only looks like them."""

from __future__ import annotations

import pytest

from lessons_loop.filter.instances import instance_values, names_instance
from support.exchanges import tool, user
from support.grounds import reading


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ({"job": "daily_export"}, {"daily_export"}),
        ({"charge": "ch_1"}, {"ch_1"}),
        ({"customer_id": 42}, {"42"}),
        ({"page_token": "CkEaXy"}, {"ckeaxy"}),
        ({"nextPageToken": "CkEa", "max_tokens": 200}, {"ckea"}),
        ({"table": "orders_2", "resource": "charges"}, set()),
        ({"user": "postgres", "column_id": "serial_2"}, set()),
        ({"metric_id": "cpu_total"}, set()),
    ],
)
def test_values_that_name_one_case(arguments: dict[str, object], values: set[str]) -> None:
    found = reading(user("q"), *tool("t", "fine then", **arguments))
    assert set(instance_values(found)) == values


def test_tenants_in_paths_and_options_name_a_case() -> None:
    found = reading(
        user("q"),
        *tool("http", "[]", url="/admin/realms/acme-prod/users?max=5"),
        *tool("shell", "ok", cmd="gcloud run --project billing-eu2 --region europe-west1"),
    )
    values = instance_values(found)
    assert {"acme-prod", "billing-eu2"} <= values
    assert names_instance("Call /admin/realms/acme-prod/users.", values)
    assert not names_instance("Call /admin/realms/acme-prod-2/users in europe-west1.", values)


def test_a_model_listed_under_id_names_no_case() -> None:
    listed = tool("http", '{"data": [{"id": "o3-mini"}]}', path="/v1/models")
    asked = tool("chat", '{"text": "ok"}', model="o3-mini")
    assert "o3-mini" in instance_values(reading(user("q"), *listed))
    assert "o3-mini" not in instance_values(reading(user("q"), *listed, *asked))


@pytest.mark.parametrize(
    ("asked", "call", "value"),
    [
        ("docker in container 114", "pct exec 114 -- ls", "114"),
        ("traffic of the uplink", "SELECT 1 FROM history WHERE itemid = 48913", "48913"),
        ("ping core-sw-2", "ping it", "core-sw-2"),
    ],
)
def test_numbers_and_labels_of_single_things_name_one_case(
    asked: str, call: str, value: str
) -> None:
    found = reading(user(asked), *tool("shell", "fine then", cmd=call))
    assert value in instance_values(found)


def test_codes_and_versions_are_no_single_things() -> None:
    call = tool("sql", "3", q="SELECT 1 WHERE status_id = 120 AND type_id IN (300)")
    found = reading(user("orders above 500 in utf-8 with gpt-4 and llama-3"), *call)
    assert not instance_values(found)
