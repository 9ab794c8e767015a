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


def _machine(serial: str, known: set[str]) -> str:
    if "serial_key" in known:
        return f"m.serial_key = '{serial}'"
    return f"m.serial_raw LIKE '%{serial.removeprefix('SN-').lstrip('0')}%'"


def _hours_query(serial: str, known: set[str]) -> str:
    bounded = "reporting_window" in known
    window = (
        " JOIN reporting_window r ON r.window_name = 'trailing-12-months'"
        " JOIN telemetry_hours t ON t.machine_id = m.machine_id"
        " AND t.day_key BETWEEN r.first_day_key AND r.last_day_key"
    )
    plain = " JOIN telemetry_hours t ON t.machine_id = m.machine_id"
    return (
        "SELECT ROUND(SUM(t.hours), 1) AS hours, COUNT(*) AS days, MIN(t.day_key) AS first_day,"
        f" MAX(t.day_key) AS last_day FROM equipment_machine m{window if bounded else plain}"
        f" WHERE {_machine(serial, known)} LIMIT 1"
    )


def _orders_query(serial: str, known: set[str]) -> str:
    return (
        "SELECT w.order_id, w.kind, w.opened_day FROM equipment_machine m"
        " JOIN work_order w ON w.machine_id = m.machine_id"
        f" WHERE {_machine(serial, known)} AND w.closed_day IS NULL"
        " ORDER BY w.opened_day LIMIT 20"
    )


def _service_query(serial: str, known: set[str]) -> str:
    return (
        "SELECT w.order_id, w.closed_day FROM equipment_machine m"
        " JOIN work_order w ON w.machine_id = m.machine_id"
        f" WHERE {_machine(serial, known)} AND w.kind = 'service' AND w.closed_day IS NOT NULL"
        " ORDER BY w.closed_day DESC LIMIT 1"
    )


def _machine_query(serial: str, known: set[str]) -> str:
    return (
        "SELECT d.model_code, d.family, s.site_name, m.retired_day FROM equipment_machine m"
        " JOIN equipment_model d ON d.model_id = m.model_id"
        " JOIN equipment_site s ON s.site_id = m.site_id"
        f" WHERE {_machine(serial, known)} LIMIT 1"
    )


def _site_query(site: str, known: set[str]) -> str:
    return (
        "SELECT m.serial_key, d.model_code FROM equipment_site s"
        " JOIN equipment_machine m ON m.site_id = s.site_id"
        " JOIN equipment_model d ON d.model_id = m.model_id"
        f" WHERE s.site_name = '{site.replace(chr(39), chr(39) * 2)}' AND m.retired_day IS NULL"
        " ORDER BY m.serial_key LIMIT 50"
    )


def _fault_query(fault: str, known: set[str]) -> str:
    if "fault_catalogue" not in known:
        return f"SELECT COUNT(*) AS orders FROM work_order w WHERE w.note LIKE '%{fault}%' LIMIT 1"
    return (
        "SELECT COUNT(*) AS orders FROM fault_catalogue f"
        " JOIN reporting_window r ON r.window_name = 'trailing-12-months'"
        " JOIN work_order w ON w.fault_code = f.fault_code"
        " AND w.opened_day BETWEEN r.first_day_key AND r.last_day_key"
        f" WHERE f.meaning = '{fault}' LIMIT 1"
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
    span = f"{_day(first['first_day'])} to {_day(first['last_day'])}"
    return (
        f"Machine {serial} ran {first['hours']:,} operating hours over the trailing 12 months, "
        f"on {first['days']} days with telemetry from {span}."
    )


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
