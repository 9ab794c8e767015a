"""The line at the top of a command while candidates wait."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from lessons_loop.promote.clock import parse_iso
from lessons_loop.promote.runs.summary import Summary, summary_path
from lessons_loop.promote.waiting import aged, waiting_line
from support.commands import run_here

LINE = "lessons: 12 candidates wait, the oldest 9 days: lessons candidates"
NOW = parse_iso("2026-11-30T08:00:00Z")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store folder of which only the summary is there: nothing else may be needed."""
    root = tmp_path / "lessons"
    put(root, Summary(domain="sql", held=2, candidates=9, oldest_candidate="2026-11-21T08:00:00Z"))
    put(root, Summary(domain="ops", held=1, oldest_held="2026-11-25T08:00:00Z"))
    return root


def put(root: Path, summary: Summary) -> None:
    path = summary_path(root / "state", summary.domain)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(summary.model_dump_json())


def test_line_counts_and_dates(store: Path) -> None:
    assert waiting_line(str(store), None, NOW) == LINE
    assert waiting_line("http://127.0.0.1:9", store / "state", NOW) == LINE


@pytest.mark.parametrize("content", [b"", b"{", b'{"domain": "sql", "held": -3e9}', b"\xff"])
def test_bad_summary_ends_no_command(store: Path, content: bytes) -> None:
    for path in (store / "state" / "summary").glob("*.json"):
        path.write_bytes(content)
    assert "waits" not in waiting_line(str(store), None, NOW)
    assert "wait" not in run_here("resume", "--store", str(store)).err


def test_command_begins_with_it(store: Path) -> None:
    first = run_here("resume", "--store", str(store)).err.splitlines()[0]
    assert first.startswith("lessons: 12 candidates wait, the oldest ")
    assert "wait" not in run_here("resume", "--store", str(store), "--json").err


@pytest.mark.parametrize("command", ["status", "candidates"])
def test_commands_that_show_them_do_not_say_so(store: Path, command: str) -> None:
    assert "candidates wait" not in run_here(command, "--store", str(store)).err


def test_silence_can_be_asked_for(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LESSONS_QUIET", "1")
    assert "wait" not in run_here("resume", "--store", str(store)).err


def test_nothing_waiting_is_nothing_said(tmp_path: Path) -> None:
    put(tmp_path, Summary(domain="sql"))
    assert waiting_line(str(tmp_path), None, NOW) == "" == waiting_line("http://x", None, NOW)


def test_one_candidate_waits(tmp_path: Path) -> None:
    put(tmp_path, Summary(domain="sql", held=1, oldest_held="2026-11-29T22:00:00Z"))
    assert waiting_line(str(tmp_path), None, NOW) == (
        "lessons: 1 candidate waits for 10 hours: lessons candidates"
    )


@pytest.mark.parametrize(
    ("then", "age"),
    [
        ("2026-11-30T08:00:00Z", "0 hours"),
        ("2026-11-30T07:00:00Z", "1 hour"),
        ("2026-11-28T08:00:00Z", "2 days"),
        ("2027-01-01T00:00:00Z", "0 hours"),
    ],
)
def test_ages_in_words(then: str, age: str) -> None:
    moment = parse_iso(then)
    assert isinstance(moment, datetime) and NOW is not None and aged(NOW, moment) == age
