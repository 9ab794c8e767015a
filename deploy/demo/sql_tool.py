"""
title: Demo data server
description: Read-only SQL on the demo machines, refusing what a governed data server refuses
author: lessons-loop
version: 0.1.0
license: MIT
"""  # noqa: D205, D212, D400, D415

# Pasted into Open WebUI as text: standard library and pydantic only, nothing of lessons_loop.
# Covered: one SELECT, opened read-only, all but reading denied, time, rows and length limited.
# Not covered: who may see which row; everybody who may use the tool sees the whole database.

from __future__ import annotations

import asyncio
import json
import math
import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, Field

QUOTED = re.compile(
    r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\[[^\]]*\]|`[^`]*`|--[^\n]*|/\*.*?\*/", re.S
)
STARTS = re.compile(r"\s*(SELECT|WITH)\b", re.I)
BIG_TABLES = ("telemetry_hours", "work_order")
GUARDED = {
    ("equipment_machine", "serial_raw"): (
        "scan on serial_raw refused: unbounded text match on raw serials"
    ),
    ("work_order", "note"): "scan on work_order.note refused: unbounded free-text match",
}
DENIED_FUNCTIONS = ("load_extension", "readfile", "writefile", "edit", "fts3_tokenizer")
READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE)


class Refused(Exception):
    """The data server did not run the query."""


class Limits(NamedTuple):
    """How much one query may cost."""

    rows: int
    seconds: float


class Tools:
    """What a chat model may call."""

    class Valves(BaseModel):
        """Settings of the administrator."""

        database: str = Field(default="", description="Path of the demo database file.")
        row_limit: int = Field(default=200, description="Rows returned at most.")
        time_limit_s: float = Field(default=5.0, description="Seconds one query may take.")

    def __init__(self) -> None:
        self.valves = self.Valves()

    async def run_sql(self, sql: str) -> str:
        """Run one read-only SQL query (SQLite dialect) on the machine data.

        Tables: equipment_machine, equipment_model, equipment_site, telemetry_hours, work_order.
        describe_tables lists their columns.

        :param sql: one SELECT statement
        :return: JSON with columns and rows
        """
        limits = Limits(self.valves.row_limit, self.valves.time_limit_s)
        return await asyncio.to_thread(run_query, self.valves.database, sql, limits)

    async def describe_tables(self) -> str:
        """List the tables of the machine data with their columns and what they mean.

        :return: JSON, table by table
        """
        return await asyncio.to_thread(describe, self.valves.database)


def run_query(database: str, sql: str, limits: Limits) -> str:
    """Return the rows as JSON text; raise Refused with one line saying what was refused."""
    bare = blank_out(sql)
    check_shape(bare)
    with closing(open_read_only(database)) as connection:
        try:
            check_plan(connection, sql, bare)
            return fetch(connection, sql, limits)
        except sqlite3.Error as error:
            raise Refused(explain(error, limits)) from None


def describe(database: str) -> str:
    """Return the data dictionary as JSON text."""
    rows = "SELECT table_name, column_name, meaning FROM data_dictionary"
    tables: dict[str, dict[str, str]] = {}
    with closing(open_read_only(database)) as connection:
        for table, column, meaning in connection.execute(rows):
            tables.setdefault(table, {})[column] = meaning
    return json.dumps({"tables": tables}, separators=(",", ":"), ensure_ascii=False)


def open_read_only(database: str) -> sqlite3.Connection:
    """Open the file read-only; raise Refused when it is not there."""
    path = Path(database)
    if not database or not path.is_file():
        raise Refused("the tool's valve 'database' names no file: ask the administrator")
    uri = f"{path.resolve().as_uri()}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    connection.execute("PRAGMA automatic_index = OFF")  # else a join on serial_raw is no scan
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000_000)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    return connection


def blank_out(sql: str) -> str:
    """Return the query with strings, quoted names and comments blanked, length kept."""

    def blank(match: re.Match[str]) -> str:
        piece = match.group()
        if piece[0] in '"[`' and re.fullmatch(r"\w+", piece[1:-1]):
            return f" {piece[1:-1]} "  # a quoted name is still a name
        return " " * len(piece)

    return QUOTED.sub(blank, sql)


def check_shape(bare: str) -> None:
    """Refuse anything but one SELECT."""
    if "\x00" in bare:
        raise Refused("the query contains a NUL character")
    if not STARTS.match(bare):
        raise Refused("read-only: only one SELECT or WITH query is allowed")
    if ";" in bare.rstrip().rstrip(";"):
        raise Refused("read-only: only one statement is allowed")


def check_plan(connection: sqlite3.Connection, sql: str, bare: str) -> None:
    """Refuse by what the query reads and how SQLite would reach it."""
    reads: set[tuple[str, str]] = set()

    def authorise(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_READ:
            reads.add((first or "", second or ""))
        harmless = action == sqlite3.SQLITE_FUNCTION and second not in DENIED_FUNCTIONS
        return sqlite3.SQLITE_OK if action in READING or harmless else sqlite3.SQLITE_DENY

    connection.set_authorizer(authorise)
    # ILIKE is no SQLite word: plan it as LIKE, so that the rule answers before the parser does.
    planned = re.sub(r"\bILIKE\b", "LIKE", sql, flags=re.I)
    steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {planned}")]
    refuse_scans(steps, reads)
    refuse_unbounded_telemetry(steps, reads, bare)
    refuse_no_limit(reads, bare)


def refuse_scans(steps: list[str], reads: set[tuple[str, str]]) -> None:
    """Refuse guarded columns unless every step reaches its rows by a known key."""
    unbounded = [step for step in steps if is_unbounded(step)]
    for column, message in GUARDED.items():
        if column in reads and unbounded:
            raise Refused(message)


def refuse_unbounded_telemetry(steps: list[str], reads: set[tuple[str, str]], bare: str) -> None:
    """Refuse telemetry without a lower bound on the day that an index can use."""
    if not any(table == "telemetry_hours" for table, _ in reads):
        return
    mentions = re.findall(r"\btelemetry_hours\b(?!\s*\.)(?:\s+(?:AS\s+)?(\w+))?", bare, re.I)
    names = {"telemetry_hours", *(alias.lower() for alias in mentions)} - {""}
    bounded = [step for step in steps if "day_key>" in step or "day_key=" in step]
    loose = [step for step in steps if step not in bounded and step_table(step) in names]
    if loose or len(bounded) < max(1, len(mentions)):
        raise Refused("read of telemetry_hours refused: no lower bound on the day")


def step_table(step: str) -> str:
    """Return the table or alias a plan step names."""
    match = re.match(r"(?:SCAN|SEARCH)\s+(\w+)", step)
    return match.group(1).lower() if match else ""


def is_unbounded(step: str) -> bool:
    """Say whether a plan step reaches its rows by anything but a known key."""
    return step.startswith("SCAN") or (step.startswith("SEARCH") and "=?" not in step)


def refuse_no_limit(reads: set[tuple[str, str]], bare: str) -> None:
    """Refuse a query on a big table that says no row limit at its end."""
    tables = {table for table, _ in reads}
    outer = bare[bare.rfind(")") + 1 :]
    for table in BIG_TABLES:
        if table in tables and not re.search(r"\bLIMIT\s+\d+", outer, re.I):
            raise Refused(f"no LIMIT: a query on {table} must end with one")


def fetch(connection: sqlite3.Connection, sql: str, limits: Limits) -> str:
    """Run the query within its limits and return the rows as JSON text."""
    deadline = time.monotonic() + limits.seconds
    connection.set_progress_handler(lambda: time.monotonic() > deadline, 1000)
    cursor = connection.execute(sql)
    rows = cursor.fetchmany(limits.rows + 1)
    result: dict[str, object] = {
        "columns": [column[0] for column in cursor.description],
        "rows": [[as_json(value) for value in row] for row in rows[: limits.rows]],
    }
    if len(rows) > limits.rows:
        result["truncated"] = f"only the first {limits.rows} rows"
    return json.dumps(result, separators=(",", ":"), ensure_ascii=False)


def as_json(value: object) -> object:
    """Return a value JSON can carry."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float):
        return float(f"{value:.12g}") if math.isfinite(value) else str(value)
    return value


def explain(error: sqlite3.Error, limits: Limits) -> str:
    """Return SQLite's own message, or ours where it says too little."""
    text = str(error)
    if "interrupted" in text:
        return f"time limit of {limits.seconds:g} s reached"
    if "not authorized" in text or "prohibited" in text:
        return f"read-only: {text}"
    return text
