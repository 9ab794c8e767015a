from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from lessons_loop.deploy.demo.data import DATA_DATE, build_database, day_key


def rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def dump(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def test_same_seed_same_rows(database: Path, tmp_path: Path) -> None:
    again, other = tmp_path / "again.db", tmp_path / "other.db"
    build_database(again)
    build_database(other, seed=8)
    assert dump(again) == dump(database)
    assert dump(other) != dump(database)


def test_building_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "demo.db"
    build_database(path)
    path.write_bytes(b"damaged")
    build_database(path)
    assert rows(path, "SELECT COUNT(*) FROM equipment_machine") == [(24,)]
    assert [entry.name for entry in path.parent.iterdir()] == ["demo.db"]


def test_a_few_thousand_rows(database: Path) -> None:
    assert rows(database, "SELECT COUNT(*) BETWEEN 3000 AND 9999 FROM telemetry_hours") == [(1,)]
    assert rows(database, "SELECT COUNT(*) BETWEEN 300 AND 900 FROM work_order") == [(1,)]


def test_text_match_on_raw_serials_is_wrong(database: Path) -> None:
    match = "SELECT serial_key FROM equipment_machine WHERE serial_raw LIKE '%{}%'"
    assert len(rows(database, match.format("4711"))) > 1
    assert rows(database, match.format("SN-004711")) == [("SN-004711",)]
    # Somebody typed the letter O for the zero.
    assert rows(database, match.format("SN-014711")) == []


def test_windows_end_on_the_data_date(database: Path) -> None:
    ends = rows(database, "SELECT DISTINCT last_day_key FROM reporting_window")
    assert ends == [(day_key(DATA_DATE),)]
    assert rows(database, "SELECT MAX(day_key) <= 20261031 FROM telemetry_hours") == [(1,)]


def test_retired_machines_stay_silent(database: Path) -> None:
    late = (
        "SELECT COUNT(*) FROM telemetry_hours JOIN equipment_machine USING (machine_id)"
        " WHERE day_key > retired_day"
    )
    assert rows(database, late) == [(0,)]
    assert rows(database, "SELECT COUNT(retired_day) > 0 FROM equipment_machine") == [(1,)]


def test_dictionary_names_every_column(database: Path) -> None:
    real = (
        "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c"
        " WHERE m.type = 'table' AND m.name <> 'data_dictionary' ORDER BY 1, 2"
    )
    told = "SELECT table_name, column_name FROM data_dictionary ORDER BY 1, 2"
    assert rows(database, told) == rows(database, real)


def test_foreign_keys_hold(database: Path) -> None:
    assert rows(database, "PRAGMA foreign_key_check") == []
