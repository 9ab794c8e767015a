"""The practice model's queries and answers: six classes of questions on the demo data."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

SIGNATURE = "(Answered by the practice model: a script, not a language model.)"
Row = dict[str, Any]


class Question(NamedTuple):
    """What the user wants, as far as a script can tell."""

    topic: str
    subject: str
    """Serial key, site name or fault."""


def query(asked: Question, known: set[str]) -> str:
    """Return the query for a question, naive where the better names are not known."""
    return _QUERIES[asked.topic](asked.subject, known)


# Short queries on purpose: the excerpt of a candidate shows calls of up to about 240 characters.


def _machine(serial: str, known: set[str]) -> str:
    if "serial_key" in known:
        return f"serial_key = '{serial}'"
    return f"serial_raw LIKE '%{serial.removeprefix('SN-').lstrip('0')}%'"


def _hours_query(serial: str, known: set[str]) -> str:
    where = f"WHERE {_machine(serial, known)}"
    joined = "FROM equipment_machine JOIN telemetry_hours USING (machine_id)"
    if "reporting_window" in known:
        joined += " JOIN reporting_window ON day_key BETWEEN first_day_key AND last_day_key"
        where += " AND window_name = 'trailing-12-months'"
    return f"SELECT SUM(hours) AS hours {joined} {where} LIMIT 1"


def _orders_query(serial: str, known: set[str]) -> str:
    return (
        "SELECT order_id, kind, opened_day FROM equipment_machine"
        f" JOIN work_order USING (machine_id) WHERE {_machine(serial, known)}"
        " AND closed_day IS NULL ORDER BY opened_day LIMIT 20"
    )


def _service_query(serial: str, known: set[str]) -> str:
    return (
        "SELECT order_id, closed_day FROM equipment_machine"
        f" JOIN work_order USING (machine_id) WHERE {_machine(serial, known)}"
        " AND kind = 'service' AND closed_day IS NOT NULL ORDER BY closed_day DESC LIMIT 1"
    )


def _machine_query(serial: str, known: set[str]) -> str:
    return (
        "SELECT model_code, family, site_name, retired_day FROM equipment_machine"
        " JOIN equipment_model USING (model_id) JOIN equipment_site USING (site_id)"
        f" WHERE {_machine(serial, known)} LIMIT 1"
    )


def _site_query(site: str, known: set[str]) -> str:
    quoted = site.replace("'", "''")
    return (
        "SELECT serial_key, model_code FROM equipment_site"
        " JOIN equipment_machine USING (site_id) JOIN equipment_model USING (model_id)"
        f" WHERE site_name = '{quoted}' AND retired_day IS NULL ORDER BY serial_key LIMIT 50"
    )


def _fault_query(fault: str, known: set[str]) -> str:
    if "fault_catalogue" not in known:
        return f"SELECT COUNT(*) AS orders FROM work_order WHERE note LIKE '%{fault}%' LIMIT 1"
    return (
        "SELECT COUNT(*) AS orders FROM work_order JOIN fault_catalogue USING (fault_code)"
        " JOIN reporting_window ON opened_day BETWEEN first_day_key AND last_day_key"
        f" WHERE meaning = '{fault}' AND window_name = 'trailing-12-months' LIMIT 1"
    )


_QUERIES: dict[str, Callable[[str, set[str]], str]] = {
    "hours": _hours_query,
    "orders": _orders_query,
    "service": _service_query,
    "machine": _machine_query,
    "site": _site_query,
    "fault": _fault_query,
}


def answer(asked: Question, result: str) -> str:
    """Return the answer in words, with figures from the tool result only."""
    rows = _rows(result)
    first = rows[0] if rows else {}
    said = _SAYINGS[asked.topic](asked.subject, rows, first) if _has_figures(first) else ""
    text = said or f"The data server has no matching rows for {asked.subject}."
    return (
        f"{text} The figures come from one query on the data server that reached its rows by a "
        f"governed key, not by a text match; nothing is estimated and nothing is added. {SIGNATURE}"
    )


def _has_figures(first: Row) -> bool:
    return any(value is not None and value != 0 for value in first.values())


def _say_hours(serial: str, rows: list[Row], first: Row) -> str:
    hours = f"{first['hours']:,.1f}"
    return f"Machine {serial} ran {hours} operating hours over the trailing 12 months."


def _say_orders(serial: str, rows: list[Row], first: Row) -> str:
    listed = "; ".join(f"{r['order_id']} ({r['kind']}, {_day(r['opened_day'])})" for r in rows)
    return f"Machine {serial} has {len(rows)} open work orders: {listed}."


def _say_service(serial: str, rows: list[Row], first: Row) -> str:
    return (
        f"Machine {serial} was last serviced on {_day(first['closed_day'])}, "
        f"work order {first['order_id']}."
    )


def _say_machine(serial: str, rows: list[Row], first: Row) -> str:
    state = f"retired on {_day(first['retired_day'])}" if first["retired_day"] else "in use"
    return (
        f"Machine {serial} is a {first['family']}, model {first['model_code']}, "
        f"at {first['site_name']}, {state}."
    )


def _say_site(site: str, rows: list[Row], first: Row) -> str:
    listed = ", ".join(f"{row['serial_key']} ({row['model_code']})" for row in rows)
    return f"{len(rows)} machines are in use at {site}: {listed}."


def _say_fault(fault: str, rows: list[Row], first: Row) -> str:
    return f"{first['orders']} work orders for {fault} were opened in the trailing 12 months."


_SAYINGS: dict[str, Callable[[str, list[Row], Row], str]] = {
    "hours": _say_hours,
    "orders": _say_orders,
    "service": _say_service,
    "machine": _say_machine,
    "site": _say_site,
    "fault": _say_fault,
}


def _rows(result: str) -> list[Row]:
    try:
        table = json.loads(result)
        return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    except (ValueError, KeyError, TypeError):
        return []


def _day(key: int) -> str:
    text = str(key)
    return f"{text[:4]}-{text[4:6]}-{text[6:]}"
