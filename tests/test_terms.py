from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.terms import (
    addresses_in,
    names_in,
    numbers_in,
    one_offs_in,
    pieces_of,
    quantities_in,
    serials_in,
)


@pytest.mark.parametrize(
    ("text", "firm"),
    [
        ("read wp_wc_orders first", ["wp_wc_orders"]),
        ("pass --max-model-len 7200", ["--max-model-len"]),
        ("quote createdAt", ["createdAt"]),
        ("use repartition(1) here", ["repartition"]),
        ("call /rest/api/3/search/jql.", ["/rest/api/3/search/jql"]),
        ("sum orders.total", ["orders.total"]),
        ("run `docker prune`", ["docker", "prune"]),
        ("plain words only, e.g. these and/or those", []),
        ("PostgreSQL, UTF-8, int64, vLLM, Node.js", []),
    ],
)
def test_firm_names(text: str, firm: list[str]) -> None:
    assert [name.written for name in names_in(text) if name.firm] == firm


@pytest.mark.parametrize("word", ["PostgreSQL", "int64", "vLLM", "Node.js", "KeyError", "E5"])
def test_loose_names(word: str) -> None:
    assert [(name.written, name.firm) for name in names_in(f"use {word} here")] == [(word, False)]


def test_dashes_and_underscores_are_alike() -> None:
    assert pieces_of("--max-model-len") == pieces_of("max_model_len")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("12,400 rows, 91.4 and 1'000", ("12400", "914", "1000")),
        ("64,3 Jahre", ("643",)),
        ("int64 v2 SN-004711", ()),
        ("wait 30s", ()),
    ],
)
def test_free_numbers(text: str, numbers: tuple[str, ...]) -> None:
    assert numbers_in(text) == numbers


def test_placeholders_and_plurals_are_no_names() -> None:
    text = "run `kubectl get <kind>` on the file(s), table_name is NULL, UNIX_TIMESTAMP-Werte"
    pieces = [name.pieces for name in names_in(text) if name.firm]
    assert pieces == [("unix_timestamp",), ("kubectl",), ("get",)]


def test_accents_do_not_make_names() -> None:
    assert names_in("Länge(n) und función(es) größe") == ()


def test_quantities_include_units() -> None:
    assert quantities_in("30s, 4Gi, x86") == ("30", "4")


@pytest.mark.parametrize(
    "text",
    ["see https://evil.example/x", "send it to evil.example", "s3://lake/in", "api.corp.internal",
     "registry.example.com/shop/web:1"],
)  # fmt: skip
def test_addresses_are_seen(text: str) -> None:
    assert addresses_in(text)


@pytest.mark.parametrize(
    "text",
    ["http://localhost:8000/v1", "orders.total", "events.parquet", "Node.js", "e.g. this",
     "nginx.ingress.kubernetes.io/proxy-body-size", "com.example.Foo", "settings.local.json"],
)  # fmt: skip
def test_names_are_no_addresses(text: str) -> None:
    assert not addresses_in(text)


@pytest.mark.parametrize(
    "text",
    ["550e8400-e29b-41d4-a716-446655440000", "9fceb02d0ae598e95dc9", "cus_QExample77",
     "on 2024-05-01", "table events_20240501", "am 1.5.2024", "load sales_q1.csv"],
)  # fmt: skip
def test_one_offs_are_seen(text: str) -> None:
    assert one_offs_in(text)


@pytest.mark.parametrize(
    "text",
    ["version 2022-11-28 of the API", "X-GitHub-Api-Version: 2022-11-28", "ga_session_id",
     "max_connections", "1.42", "since 2024"],
)  # fmt: skip
def test_durable_words_are_no_one_offs(text: str) -> None:
    assert not one_offs_in(text)


def test_serials_are_not_standards() -> None:
    assert serials_in("SN-004711, ISO-8859, AES-256, CVE-2021, PAY-123") == ("SN-004711", "PAY-123")


@given(st.text())
def test_any_text_is_survived(text: str) -> None:
    names_in(text), numbers_in(text), serials_in(text)
    assert addresses_in(text) in (True, False)
    assert one_offs_in(text) in (True, False)


def test_a_decimal_below_one_is_no_small_number() -> None:
    assert numbers_in("0.4 GB, 0,4 GB, 4 GB, 007") == ("0.4", "4", "7")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("dates such as 03.04.2024", False),
        ("days since 1970-01-01", False),
        ("on 03.04.2024", True),
        ("open talk_v3.mov", True),
        ("read error.msg", False),
    ],
)
def test_days_that_only_show_a_format_are_no_one_offs(text: str, found: bool) -> None:
    assert one_offs_in(text) is found


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("push to ghcr.io with it.", False),
        ("pull from ghcr.io/acme/web", True),
        ("see https://github.com", True),
        ("push to ghcr.io.evil.example", True),
        ("push to registry.example.com", True),
    ],
)
def test_bare_public_registries_are_products(text: str, address: bool) -> None:
    assert addresses_in(text) is address


@pytest.mark.parametrize("text", ["read schema.table", "in your_table", "from my_schema.my_table"])
def test_stand_ins_are_no_names(text: str) -> None:
    assert names_in(text) == ()


def test_a_name_with_one_word_of_its_own_is_a_name() -> None:
    assert [name.written for name in names_in("read order_table")] == ["order_table"]
