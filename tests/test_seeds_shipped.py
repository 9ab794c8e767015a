from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from lessons_loop.deploy.demo.sql_tool import (
    Limits,
    Refused,
    describe,
    run_query,
)
from lessons_loop.filter.embed import Purpose
from lessons_loop.filter.models import Kind
from lessons_loop.promote.embedding.minilm import MiniLM
from lessons_loop.promote.lint.check import lint
from lessons_loop.promote.similar.similarity import (
    CONFLICT,
    DUP_THRESHOLD,
    DUPLICATE,
    SURELY_RELATED,
    compare,
)
from lessons_loop.seeds.load import Seed, read_seeds, shipped_domains

SHIPPED = {name: read_seeds(folder) for name, folder in shipped_domains().items()}
SQL = SHIPPED["sql"].seeds
NAME = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
TOOL_WORDS = {"run_sql", "describe_tables"}


def columns(database: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    listing = "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c"
    with closing(sqlite3.connect(database)) as connection:
        for table, column in connection.execute(listing):
            found.setdefault(table, set()).add(column)
    return found


def fragments() -> Iterator[tuple[str, str]]:
    for seed in SQL:
        for fragment in re.findall(r"`([^`]+)`", seed.lesson.text):
            yield seed.id, fragment


def test_two_domains_with_every_kind() -> None:
    assert len(SQL) >= 30
    assert len(SHIPPED["openwebui"].seeds) >= 24
    for found in SHIPPED.values():
        assert set(Counter(seed.lesson.kind for seed in found.seeds)) == set(Kind)


@pytest.mark.parametrize("seed", [seed for found in SHIPPED.values() for seed in found.seeds])
def test_shipped_lessons_pass_the_lint(seed: Seed) -> None:
    assert [finding.sentence for finding in lint(seed.lesson)] == []


def test_ids_are_unique_over_all_domains() -> None:
    ids = Counter(seed.id for found in SHIPPED.values() for seed in found.seeds)
    assert [ident for ident, count in ids.items() if count > 1] == []


def test_where_a_fact_comes_from_is_said() -> None:
    own = {"administration.yaml", "filters.yaml", "updates.guide.yaml"}
    told = [s for s in SHIPPED["openwebui"].seeds if s.file.partition("/")[2] not in own]
    assert len(told) > 30 and all(seed.origin for seed in told)


@pytest.mark.parametrize("domain", sorted(SHIPPED))
def test_no_two_lessons_repeat_or_oppose_each_other(domain: str) -> None:
    lessons = [seed.lesson for seed in SHIPPED[domain].seeds]
    embedder = MiniLM()
    whole = embedder.embed([one.embedded_text for one in lessons], Purpose.DOCUMENT)
    texts = embedder.embed([one.text for one in lessons], Purpose.DOCUMENT)
    near = np.maximum(whole @ whole.T, texts @ texts.T)
    for new, old in permutations(range(len(lessons)), 2):
        relation = compare(lessons[new], lessons[old], float(near[new, old]), DUP_THRESHOLD)
        assert relation.relation != DUPLICATE and near[new, old] < DUP_THRESHOLD
        assert relation.relation != CONFLICT or near[new, old] < SURELY_RELATED, lessons[new].text


def test_named_tables_and_columns_exist(database: Path) -> None:
    tables = columns(database)
    known = set(tables) | set().union(*tables.values()) | TOOL_WORDS
    named = {name for s in SQL for name in NAME.findall(f"{s.lesson.text} {s.lesson.trigger}")}
    assert named - known == set()
    assert len(named) > 20


def test_qualified_columns_stand_in_their_table(database: Path) -> None:
    tables = columns(database)
    qualified = {
        pair
        for seed in SQL
        for pair in re.findall(r"\b([a-z_]+)\.([a-z_]+)\b", seed.lesson.text)
        if pair[0] in tables
    }
    assert {pair for pair in qualified if pair[1] not in tables[pair[0]]} == set()
    assert len(qualified) > 10


@pytest.mark.parametrize(("ident", "fragment"), list(fragments()))
def test_quoted_predicates_run(database: Path, ident: str, fragment: str) -> None:
    named = {table for table in columns(database) if f"{table}." in fragment}
    with closing(sqlite3.connect(database)) as connection:
        sql = f"SELECT 1 FROM {', '.join(sorted(named))} WHERE {fragment} LIMIT 1"
        assert connection.execute(sql).fetchall() == [(1,)], ident


CAUSES = {
    "error-serial-scan": "SELECT 1 FROM equipment_machine WHERE serial_raw = 'x'",
    "error-no-day-bound": "SELECT SUM(hours) FROM telemetry_hours LIMIT 1",
    "error-no-limit": "SELECT order_id FROM work_order WHERE machine_id = 1",
    "error-note-scan": "SELECT 1 FROM work_order WHERE note LIKE '%x%' LIMIT 1",
    "error-no-such-column": "SELECT serial FROM equipment_machine",
    "error-other-dialect": "SELECT NOW()",
    "error-read-only": "DELETE FROM work_order",
}


@pytest.mark.parametrize(("ident", "sql"), CAUSES.items())
def test_error_lessons_quote_real_errors(database: Path, ident: str, sql: str) -> None:
    lesson = next(seed.lesson for seed in SQL if seed.id == ident)
    with pytest.raises(Refused) as refusal:
        run_query(str(database), sql, Limits(10, 60))
    quoted = re.findall(r"(?<!\w)'([a-zA-Z][^']+)'", lesson.text)
    assert any(words in str(refusal.value) for words in quoted)


CURES = {
    "error-serial-scan": "SELECT 1 FROM equipment_machine WHERE serial_key = 'SN-004711'",
    "error-no-day-bound": (
        "SELECT SUM(hours) FROM reporting_window r JOIN telemetry_hours t ON t.machine_id = 1"
        " AND t.day_key BETWEEN r.first_day_key AND r.last_day_key"
        " WHERE r.window_name = 'trailing-12-months' LIMIT 1"
    ),
    "error-no-limit": "SELECT order_id FROM work_order WHERE machine_id = 1 LIMIT 9",
    "error-note-scan": "SELECT note FROM work_order WHERE fault_code = 'HYD-LEAK' LIMIT 9",
    "last-service": (
        "SELECT closed_day FROM work_order WHERE machine_id = 1 AND kind = 'service'"
        " AND closed_day IS NOT NULL ORDER BY closed_day DESC LIMIT 1"
    ),
    "latest-row-per-machine": (
        "SELECT machine_id, order_id FROM (SELECT machine_id, order_id, ROW_NUMBER() OVER"
        " (PARTITION BY machine_id ORDER BY opened_day DESC, order_id DESC) AS place"
        " FROM work_order) WHERE place = 1 LIMIT 9"
    ),
    "other-windows": (
        "SELECT SUM(t.hours) FROM reporting_window r JOIN telemetry_hours t ON t.day_key"
        " BETWEEN r.first_day_key AND r.last_day_key WHERE r.window_name = 'year-to-date' LIMIT 1"
    ),
    "aggregate-before-join": (
        "SELECT h.hours, o.orders FROM (SELECT machine_id, SUM(hours) hours FROM telemetry_hours"
        " WHERE machine_id = 1 AND day_key >= 20260101 GROUP BY 1) h JOIN (SELECT machine_id,"
        " COUNT(*) orders FROM work_order WHERE machine_id = 1 GROUP BY 1) o"
        " USING (machine_id) LIMIT 1"
    ),
}


@pytest.mark.parametrize(("ident", "sql"), CURES.items())
def test_advice_is_accepted_by_the_server(database: Path, ident: str, sql: str) -> None:
    assert any(seed.id == ident for seed in SQL)
    assert '"rows":[[' in run_query(str(database), sql, Limits(10, 60))


def test_describe_tables_is_what_lessons_point_at(database: Path) -> None:
    assert "serial_key" in describe(str(database))
