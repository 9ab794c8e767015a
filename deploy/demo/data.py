"""Demo data: a real SQLite database of machines, operating hours and work orders.

Everything comes from a seed and from one fixed data date, the end of the last
full month in the data, so that the same seed gives the same answers for ever.
`reporting_window` carries the windows that end on it; "today" plays no part.
"""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import date, timedelta
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

DATA_DATE = date(2026, 10, 31)
"""Last day with data."""
FIRST_DAY = date(2025, 8, 1)
WINDOWS = {
    "trailing-12-months": (date(2025, 11, 1), DATA_DATE),
    "last-month": (date(2026, 10, 1), DATA_DATE),
    "year-to-date": (date(2026, 1, 1), DATA_DATE),
}
SITES = (
    ("Northfield", "GB"),
    ("Hafenbecken", "DE"),
    ("Val d'Or", "CA"),
    ("Quarry Hill", "IE"),
    ("Lindenau", "DE"),
)
MODELS = (
    ("EX-210", "excavator", 118),
    ("EX-350", "excavator", 202),
    ("WL-60", "loader", 96),
    ("CR-90", "crane", 270),
    ("PU-12", "pump", 45),
)
FAULTS = {
    "HYD-LEAK": "hydraulic leak",
    "ELE-FUSE": "blown fuse",
    "COOL-HOT": "engine overheating",
    "BRK-WEAR": "worn brake pads",
}
# Families of look-alikes: a text match on 4711 or 0815 meets several machines.
NUMBERS = (
    *(4711, 47110, 104711, 4712, 4717, 14711),
    *(815, 8150, 100815, 816, 20815, 81500),
    *(2024, 20240, 12024, 3003, 30030, 13003),
    *(5150, 515, 51500, 777, 7770, 10777),
)
NOTES = (
    "cust. reports {fault}, see machine next to {other}",
    "{fault} on arrival; replaced part, tested ok",
    "routine work done, no {fault} found",
    "visited for {other}, looked at this one as well",
    "nothing unusual",
)


class Machine(NamedTuple):
    """One row of equipment_machine."""

    machine_id: int
    serial_key: str
    serial_raw: str
    model_id: int
    site_id: int
    commissioned_day: int
    retired_day: int | None


def day_key(day: date) -> int:
    """Return a day as the integer YYYYMMDD."""
    return day.year * 10_000 + day.month * 100 + day.day


def serial_key(number: int) -> str:
    """Return the canonical serial of a number."""
    return f"SN-{number:06d}"


def spell(number: int, variant: int) -> str:
    """Return a serial as somebody typed it; the last variant has letters for zeros."""
    padded = f"{number:06d}"
    spellings = (
        f"sn-{padded} ",
        f"SN {number}",
        f"S/N {padded}",
        f"Sn_{number}",
        str(number),
        f"SN-{padded.replace('0', 'O')}",
    )
    return spellings[variant % len(spellings)]


def build_database(path: Path, seed: int = 7) -> None:
    """Write the database to `path`, replacing what is there only once it is complete."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(draft)) as connection:
            _fill(connection, random.Random(seed))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _fill(connection: sqlite3.Connection, chance: random.Random) -> None:
    schema = files("lessons_loop.deploy.demo").joinpath("schema.sql").read_text("utf-8")
    connection.executescript(schema)
    machines = tuple(_machines(chance))
    _insert(connection, "equipment_site", ((n, *site) for n, site in enumerate(SITES, 1)))
    _insert(connection, "equipment_model", ((n, *model) for n, model in enumerate(MODELS, 1)))
    _insert(connection, "equipment_machine", machines)
    _insert(connection, "fault_catalogue", FAULTS.items())
    _insert(connection, "telemetry_hours", _hours(machines, chance))
    _insert(connection, "work_order", _orders(machines, chance))
    windows = ((name, day_key(first), day_key(last)) for name, (first, last) in WINDOWS.items())
    _insert(connection, "reporting_window", windows)
    connection.commit()


def _insert(connection: sqlite3.Connection, table: str, rows: object) -> None:
    listed = [tuple(row) for row in rows]  # type: ignore[attr-defined]
    marks = ", ".join("?" * len(listed[0]))
    connection.executemany(f"INSERT INTO {table} VALUES ({marks})", listed)


def _machines(chance: random.Random) -> Iterator[Machine]:
    for index, number in enumerate(NUMBERS):
        bought = date(2015 + chance.randrange(9), chance.randrange(1, 13), 15)
        retired = date(2026, 3, 1 + index) if index % 8 == 7 else None
        yield Machine(
            machine_id=index + 1,
            serial_key=serial_key(number),
            serial_raw=spell(number, index),
            model_id=1 + chance.randrange(len(MODELS)),
            site_id=1 + index % len(SITES),
            commissioned_day=day_key(bought),
            retired_day=day_key(retired) if retired else None,
        )


def _hours(
    machines: tuple[Machine, ...], chance: random.Random
) -> Iterator[tuple[int, int, float]]:
    for machine in machines:
        usual = 3 + 7 * chance.random()
        for day in _days():
            if machine.retired_day and day_key(day) > machine.retired_day:
                break
            if day.weekday() < 5 and chance.random() < 0.85:
                hours = round(max(0.2, chance.gauss(usual, 1.5)), 1)
                yield machine.machine_id, day_key(day), hours


def _days() -> Iterator[date]:
    for offset in range((DATA_DATE - FIRST_DAY).days + 1):
        yield FIRST_DAY + timedelta(days=offset)


def _orders(machines: tuple[Machine, ...], chance: random.Random) -> Iterator[tuple[object, ...]]:
    number = 9000
    for machine in machines:
        last = machine.retired_day or day_key(DATA_DATE)
        for _ in range(chance.randrange(18, 30)):
            opened = FIRST_DAY + timedelta(days=chance.randrange((DATA_DATE - FIRST_DAY).days))
            if day_key(opened) <= last:
                number += 1
                yield (number, machine.machine_id, *_order(opened, last, chance))


def _order(opened: date, last: int, chance: random.Random) -> tuple[object, ...]:
    kind = chance.choice(("service", "repair", "repair", "inspection"))
    fault = chance.choice(tuple(FAULTS)) if kind == "repair" else None
    closed = day_key(opened + timedelta(days=chance.randrange(1, 40)))
    note = chance.choice(NOTES).format(
        fault=FAULTS[chance.choice(tuple(FAULTS))], other=spell(chance.choice(NUMBERS), 1)
    )
    open_still = closed > last or chance.random() < 0.06
    return kind, fault, day_key(opened), None if open_still else closed, note
