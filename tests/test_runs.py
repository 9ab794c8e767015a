from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessons_loop.filter.errors import StoreError
from lessons_loop.promote.runs.register import (
    RunLine,
    Span,
    ages,
    append_run,
    last_waiting,
    read_runs,
    told_error,
)

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def line(number: int, domain: str = "sql", **fields: object) -> RunLine:
    return RunLine.model_validate({"run": f"run-{number}", "domain": domain} | fields)


def test_written_lines_are_read_in_order(tmp_path: Path) -> None:
    for number in range(5):
        append_run(tmp_path / "state", line(number, "sql" if number % 2 else "law"))
    assert [one.run[-1] for one in read_runs(tmp_path / "state")] == ["0", "1", "2", "3", "4"]
    assert [one.run[-1] for one in read_runs(tmp_path / "state", last=2)] == ["3", "4"]
    assert [one.run[-1] for one in read_runs(tmp_path / "state", "law", last=2)] == ["2", "4"]


def test_no_file_is_no_run(tmp_path: Path) -> None:
    assert read_runs(tmp_path / "nowhere") == []
    assert last_waiting(tmp_path / "nowhere", "sql") == (0, "")


def test_bad_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    append_run(tmp_path, line(1))
    with (tmp_path / "runs.jsonl").open("ab") as file:
        file.write(b'{"run": 3}\n\xff\xfe\n[]\n\n')
    append_run(tmp_path, line(2))
    found = read_runs(tmp_path)
    assert ([one.run for one in found], found.unreadable) == (["run-1", "run-2"], 3)


@settings(max_examples=30, deadline=None)
@given(cut=st.integers(1, 60))
def test_torn_line_costs_only_itself(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    state = tmp_path_factory.mktemp("torn")
    append_run(state, line(1))
    append_run(state, line(2))
    path = state / "runs.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    append_run(state, line(3))
    runs = [one.run for one in read_runs(state)]
    assert runs in (["run-1", "run-3"], ["run-1", "run-2", "run-3"])


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    def write(base: int) -> None:
        for number in range(20):
            append_run(tmp_path, line(base + number, held=("k" * 64,) * 200))

    threads = [threading.Thread(target=write, args=(base,)) for base in (0, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_runs(tmp_path)) == 40


def test_fields_of_a_later_release_are_no_error(tmp_path: Path) -> None:
    content = line(1).model_dump(mode="json") | {"mood": "good", "read": {"moods": 3}}
    (tmp_path / "runs.jsonl").write_text(json.dumps(content) + "\n")
    assert read_runs(tmp_path)[0].run == "run-1"


def test_waiting_is_from_the_last_run_that_looked(tmp_path: Path) -> None:
    append_run(tmp_path, line(1, waiting=12, oldest_waiting="2026-10-01T00:00:00Z"))
    append_run(tmp_path, line(2, paused="holidays"))
    append_run(tmp_path, line(3, "law", waiting=1))
    assert last_waiting(tmp_path, "sql") == (12, "2026-10-01T00:00:00Z")


def test_unusable_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").mkdir()
    with pytest.raises(StoreError, match=r"runs\.jsonl cannot be used: is a directory"):
        append_run(tmp_path, line(1))
    with pytest.raises(StoreError, match="cannot be used"):
        read_runs(tmp_path)


def test_clock_set_back_is_no_negative_time() -> None:
    assert Span(NOON, NOON - timedelta(hours=1)).fields["seconds"] == 0.0


def test_error_is_one_masked_line() -> None:
    told = told_error(
        "no answer\n from https://x.invalid with key sk-obviouslyfake1234567890abcdef"
    )
    assert "\n" not in told and "obviouslyfake" not in told


def test_ages_count_into_bounds() -> None:
    moments = [NOON - timedelta(days=days) for days in (-1, 0, 7, 8, 90, 400)]
    assert ages(moments, NOON) == {"7d": 3, "30d": 1, "90d": 1, "older": 1}
