from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lessons_loop.promote.decide.plan import next_entry
from lessons_loop.promote.ledger.chain import Ledger, LedgerEntry
from lessons_loop.promote.ledger.history import Wanted, read_history, span_of
from lessons_loop.promote.records import Action, Actor, Change
from support.commands import run_here
from support.gate import HUMAN

NOW = datetime(2026, 11, 30, 9, 30, tzinfo=UTC)
MODEL = Actor(kind="llm", name="review", model="judge-8b")
LINES = (
    (Action.PROMOTE, "aaa111", HUMAN, "seen to work", "run-1", "2026-11-01T08:00:00Z"),
    (Action.REJECT, "bbb222", MODEL, "too broad", "run-2", "2026-11-29T23:59:59Z"),
    (Action.DEMOTE, "aaa111", HUMAN, "no longer true", "run-3", "2026-11-30T00:00:00Z"),
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    ledger = Ledger(tmp_path / "state")
    ledger.path.parent.mkdir()
    tail: LedgerEntry | None = None
    for action, key, actor, reason, run, at in LINES:
        payload = ledger.store_payload({"lesson": {"text": f"Advice {key}."}})
        change = Change(action, key, reason, actor, {})
        tail = next_entry(change, tail, payload, "sql", run, at)
        ledger.append(tail)
    return tmp_path / "state"


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (Wanted(), [1, 2, 3]),
        (Wanted(lesson="aaa"), [1, 3]),
        (Wanted(run="run-2"), [2]),
        (Wanted(actor="JUDGE"), [2]),
        (Wanted(actor="human"), [1, 3]),
        (Wanted(action="demote"), [3]),
        (Wanted(domain="law"), []),
        (Wanted(since="2026-11-30T00:00:00Z"), [3]),
        (Wanted(until="2026-11-30T00:00:00Z"), [1, 2]),
    ],
)
def test_filters_choose_lines(state: Path, wanted: Wanted, numbers: list[int]) -> None:
    assert [entry.n for entry in read_history(state, wanted).entries] == numbers


def test_newest_lines_are_kept_and_come_last(state: Path) -> None:
    past = read_history(state, Wanted(), limit=2)
    assert [entry.n for entry in past.entries] == [2, 3] and past.matching == 3
    assert past.texts[3] == "Advice aaa111."


def test_gone_payload_costs_only_the_text(state: Path) -> None:
    for file in (state / "payloads").iterdir():
        file.write_text("[")
    assert set(read_history(state, Wanted()).texts.values()) == {""}


def test_unreadable_lines_are_counted(state: Path) -> None:
    path = state / "ledger.jsonl"
    path.write_bytes(b"\xff\n" + path.read_bytes() + b'{"n"')
    past = read_history(state, Wanted())
    assert (len(past.entries), past.unreadable) == (3, 2)


@pytest.mark.parametrize(
    ("day", "since", "until", "bounds"),
    [
        ("2026-11-29", "", "", ("2026-11-29T00:00:00Z", "2026-11-30T00:00:00Z")),
        ("today", "", "", ("2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z")),
        ("", "7d", "yesterday", ("2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z")),
        ("", "2026-11-30T08:00+02:00", "", ("2026-11-30T06:00:00Z", "")),
        ("", "", "", ("", "")),
    ],
)
def test_days_become_bounds(day: str, since: str, until: str, bounds: tuple[str, str]) -> None:
    assert span_of(day, since, until, NOW) == bounds


@pytest.mark.parametrize("word", ["soon", "2026-13-01", "-1d", "99999d", "d"])
def test_no_day_is_told(word: str) -> None:
    with pytest.raises(ValueError, match="is no day"):
        span_of("", word, "", NOW)


# --- the command


def test_command_works_without_a_store(state: Path) -> None:
    done = run_here("history", "--state-dir", str(state), "--lesson", "AAA", "--limit", "1")
    assert done.code == 0 and "no longer true" in done.out and "seen to work" not in done.out
    assert "2 lines, the newest 1 shown" in done.out


def test_command_prints_json(state: Path) -> None:
    done = run_here("history", "--state-dir", str(state), "--json")
    lines = json.loads(done.out)["lines"]
    assert [line["n"] for line in lines] == [1, 2, 3]
    assert lines[0]["text"] == "Advice aaa111." and lines[1]["actor"]["model"] == "judge-8b"


@pytest.mark.parametrize(
    "words", [["--action", "dance"], ["--day", "soon"], ["--day", "today", "--since", "7d"]]
)
def test_command_refuses_nonsense(state: Path, words: list[str]) -> None:
    assert run_here("history", "--state-dir", str(state), *words).code == 2


def test_no_ledger_is_one_line(tmp_path: Path) -> None:
    done = run_here("history", "--state-dir", str(tmp_path))
    assert done.code == 1 and "no ledger in" in done.err
