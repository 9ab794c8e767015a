from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from lessons_loop.deploy.demo.sql_tool import open_read_only
from support.demo import call_tool, load_tool

HOURS = (
    "SELECT SUM(t.hours) AS hours FROM equipment_machine m"
    " JOIN telemetry_hours t ON t.machine_id = m.machine_id"
    " AND t.day_key BETWEEN 20251101 AND 20261031 WHERE m.serial_key = 'SN-004711' LIMIT 1"
)


@pytest.fixture(scope="module")
def tool(database: Path) -> Any:
    return load_tool(database)


def run(tool: Any, sql: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(call_tool(tool, "run_sql", {"sql": sql}))
    return result


def test_bounded_query_by_key_answers(tool: Any) -> None:
    result = run(tool, HOURS)
    assert result["columns"] == ["hours"]
    assert result["rows"][0][0] > 500


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT machine_id FROM equipment_machine WHERE serial_raw LIKE '%4711%' LIMIT 5",
        "SELECT machine_id FROM equipment_machine WHERE serial_raw ILIKE '%4711%' LIMIT 5",
        "SELECT machine_id FROM equipment_machine WHERE serial_raw GLOB '*4711*'",
        "SELECT machine_id FROM equipment_machine WHERE serial_raw = 'SN 4711'",
        "SELECT machine_id FROM equipment_machine WHERE lower(trim(serial_raw)) = 'sn 4711'",
        "SELECT machine_id FROM equipment_machine WHERE \"serial_raw\" IN ('SN 4711')",
        "SELECT machine_id FROM equipment_machine WHERE instr(serial_raw, '4711') /* key */",
        "WITH x AS (SELECT machine_id, serial_raw s FROM equipment_machine) SELECT * FROM x",
        "SELECT m.machine_id FROM equipment_site s JOIN equipment_machine m"
        " ON m.site_id = s.site_id WHERE m.serial_raw LIKE '%4711%'",
        "SELECT m.machine_id FROM (SELECT 'SN 4711' v) JOIN equipment_machine m"
        " ON m.serial_raw = v",
        "SELECT b.serial_key FROM equipment_machine a JOIN equipment_machine b"
        " ON b.serial_raw = a.serial_raw WHERE a.site_id = 1",
        "SELECT serial_raw FROM equipment_machine WHERE serial_key > ''",
        "SELECT machine_id FROM equipment_machine WHERE machine_id IN"
        " (SELECT machine_id FROM equipment_machine WHERE serial_raw LIKE '%4711%')",
    ],
)
def test_refuses_scans_on_raw_serials(tool: Any, sql: str) -> None:
    refusal = run(tool, sql)
    assert refusal == {"error": "scan on serial_raw refused: unbounded text match on raw serials"}


def test_raw_serial_of_a_known_machine_is_readable(tool: Any) -> None:
    sql = "SELECT serial_raw FROM equipment_machine WHERE serial_key = 'SN-004711'"
    assert run(tool, sql)["rows"] == [["sn-004711 "]]


@pytest.mark.parametrize(
    "tail",
    [
        "FROM telemetry_hours LIMIT 1",
        "FROM telemetry_hours WHERE machine_id = 1 LIMIT 1",
        "FROM telemetry_hours WHERE machine_id = 1 AND day_key < 20261031 LIMIT 1",
        "FROM telemetry_hours WHERE CAST(day_key AS TEXT) LIKE '2026%' LIMIT 1",
        "FROM 'telemetry_hours' WHERE machine_id = 1 LIMIT 1",
        'FROM telemetry_hours AS "a b" WHERE machine_id = 1 LIMIT 1',
        "FROM (SELECT * FROM telemetry_hours t) LIMIT 1",
    ],
)
def test_refuses_telemetry_without_a_day(tool: Any, tail: str) -> None:
    assert "no lower bound on the day" in run(tool, f"SELECT SUM(hours) {tail}")["error"]


def test_every_read_of_telemetry_needs_a_bound(tool: Any) -> None:
    sql = (
        "WITH x AS NOT MATERIALIZED (SELECT * FROM telemetry_hours)"
        " SELECT (SELECT SUM(hours) FROM x WHERE machine_id = 1 AND day_key > 20260101),"
        " (SELECT SUM(hours) FROM x) LIMIT 1"
    )
    assert "no lower bound" in run(tool, sql)["error"]


def test_refuses_free_text_scans(tool: Any) -> None:
    scan = run(tool, "SELECT order_id FROM work_order WHERE note LIKE '%leak%' LIMIT 5")
    keyed = run(tool, "SELECT note FROM work_order WHERE machine_id = 1 LIMIT 2")
    assert scan["error"].startswith("scan on work_order.note refused")
    assert len(keyed["rows"]) == 2


@pytest.mark.parametrize(
    ("sql", "refused"),
    [
        (HOURS.removesuffix(" LIMIT 1"), True),
        ("SELECT order_id FROM work_order WHERE machine_id = 1", True),
        ("SELECT * FROM (SELECT order_id FROM work_order WHERE machine_id = 1 LIMIT 3)", True),
        ("SELECT order_id FROM work_order WHERE machine_id = 1 -- LIMIT 5", True),
        ("SELECT order_id FROM work_order WHERE machine_id = 1 LIMIT 5;", False),
        ("SELECT site_name FROM equipment_site", False),
    ],
)
def test_big_tables_need_a_limit(tool: Any, sql: str, refused: bool) -> None:
    assert run(tool, sql).get("error", "").startswith("no LIMIT") is refused


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO equipment_site VALUES (9, 'x', 'y')",
        "UPDATE work_order SET note = ''",
        "DELETE FROM work_order",
        "WITH a AS (SELECT 1) DELETE FROM work_order",
        "WITH a AS (SELECT 1) INSERT INTO equipment_site SELECT 9, 'x', 'y'",
        "SELECT 1; DROP TABLE work_order",
        "DROP TABLE work_order",
        "CREATE TABLE t (a)",
        "ALTER TABLE work_order RENAME TO w",
        "ATTACH DATABASE 'other.db' AS other",
        "PRAGMA writable_schema = 1",
        "SELECT * FROM pragma_journal_mode('delete')",
        "SELECT file FROM pragma_database_list",
        "VACUUM INTO 'copy.db'",
        "REINDEX",
        "BEGIN IMMEDIATE",
        "SELECT load_extension('x')",
        "EXPLAIN DELETE FROM work_order",
        "/* SELECT */ DELETE FROM work_order",
        "",
        "SELECT 1 \x00; DELETE FROM work_order",
    ],
)
def test_nothing_but_reading(tool: Any, database: Path, sql: str) -> None:
    before = hashlib.sha256(database.read_bytes()).hexdigest()
    assert "error" in run(tool, sql)
    assert hashlib.sha256(database.read_bytes()).hexdigest() == before
    assert [entry.name for entry in database.parent.iterdir()] == [database.name]


def test_file_itself_is_open_for_reading_only(database: Path) -> None:
    connection = open_read_only(str(database))
    with closing(connection), pytest.raises(sqlite3.OperationalError, match="readonly"):
        connection.execute("DELETE FROM work_order")


@pytest.mark.parametrize("sql", ["SELECT serial FROM equipment_machine", "SELECT NOW()"])
def test_sqlite_errors_come_in_its_words(tool: Any, sql: str) -> None:
    assert run(tool, sql)["error"].startswith("no such")


def test_endless_query_is_stopped(database: Path) -> None:
    tool = load_tool(database)
    tool.valves = tool.Valves(database=str(database), time_limit_s=0.2)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) FROM n"
    assert run(tool, endless)["error"] == "time limit of 0.2 s reached"


def test_huge_values_are_refused(tool: Any) -> None:
    assert "too big" in run(tool, "SELECT hex(zeroblob(900000))")["error"]


def test_rows_are_cut_and_said(database: Path) -> None:
    tool = load_tool(database)
    tool.valves = tool.Valves(database=str(database), row_limit=3)
    result = run(tool, "SELECT order_id FROM work_order LIMIT 50")
    assert len(result["rows"]) == 3
    assert result["truncated"] == "only the first 3 rows"


def test_strings_with_semicolons_are_data(tool: Any) -> None:
    assert run(tool, "SELECT 'a;b--c' AS x; -- done")["rows"] == [["a;b--c"]]


def test_odd_values_are_still_json(tool: Any) -> None:
    assert run(tool, "SELECT x'00ff', 1e999, NULL")["rows"] == [["00ff", "inf", None]]


def test_describe_tables_lists_meanings(tool: Any) -> None:
    tables = json.loads(call_tool(tool, "describe_tables", {}))["tables"]
    assert "canonical" in tables["equipment_machine"]["serial_key"]


def test_missing_database_says_what_to_do(tmp_path: Path) -> None:
    tool = load_tool(tmp_path / "none.db")
    assert "valve 'database'" in run(tool, "SELECT 1")["error"]


def test_query_does_not_block_the_event_loop(database: Path) -> None:
    tool = load_tool(database)
    tool.valves = tool.Valves(database=str(database), time_limit_s=1)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT MAX(i) FROM n"

    async def ticks() -> int:
        query = asyncio.create_task(tool.run_sql(sql=endless))
        count = 0
        while not query.done():
            await asyncio.sleep(0.01)
            count += 1
        assert query.exception()
        return count

    assert asyncio.run(ticks()) > 1  # one: the query held the loop until its end


def test_text_keeps_the_loader_rules() -> None:
    source = files("lessons_loop.deploy.demo").joinpath("sql_tool.py").read_text("utf-8")
    assert source.startswith('"""\ntitle: ')
    assert "lessons_loop." not in source.partition("class Tools")[2]
    assert not [word for word in ("utils", "apps", "main", "config") if f"from {word}" in source]
