from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lessons_loop.filter.errors import StoreError
from lessons_loop.promote.decide.plan import next_entry
from lessons_loop.promote.errors import LedgerBroken
from lessons_loop.promote.ledger.chain import FIRST_PREV, Head, Ledger, LedgerEntry
from lessons_loop.promote.records import Action, Change
from support.gate import HUMAN


def filled(state: Path, lines: int = 4) -> Ledger:
    ledger = Ledger(state)
    tail: LedgerEntry | None = None
    for number in range(lines):
        payload = ledger.store_payload({"text": f"lesson {number}"})
        change = Change(Action.HOLD, f"key-{number}", "wait", HUMAN, {})
        tail = next_entry(change, tail, payload, "sql", "run-1", "2026-11-01T08:00:00Z")
        ledger.append(tail)
    return ledger


def rewrite(ledger: Ledger, lines: list[bytes]) -> None:
    ledger.path.write_bytes(b"\n".join([*lines, b""]))


def lines_of(ledger: Ledger) -> list[bytes]:
    return ledger.path.read_bytes().splitlines()


def test_written_ledger_verifies(tmp_path: Path) -> None:
    ledger = filled(tmp_path)
    assert ledger.verify() == []
    assert [entry.n for entry in ledger.entries()] == [1, 2, 3, 4]
    assert ledger.entries()[0].prev == FIRST_PREV
    assert ledger.payload(ledger.entries()[2]) == {"text": "lesson 2"}


def test_edited_line_is_found(tmp_path: Path) -> None:
    ledger = filled(tmp_path)
    lines = lines_of(ledger)
    rewrite(ledger, [lines[0], lines[1].replace(b"wait", b"fine"), *lines[2:]])
    assert ledger.verify() == ["line 2: was edited, its hash does not match"]


def test_removed_line_is_found(tmp_path: Path) -> None:
    ledger = filled(tmp_path)
    lines = lines_of(ledger)
    rewrite(ledger, [lines[0], *lines[2:]])
    assert ledger.verify() == ["line 2: number 3 stands where number 2 should be"]


def test_reordered_lines_are_found(tmp_path: Path) -> None:
    ledger = filled(tmp_path)
    lines = lines_of(ledger)
    rewrite(ledger, [lines[0], lines[2], lines[1], lines[3]])
    assert ledger.verify()[0] == "line 2: number 3 stands where number 2 should be"


def test_garbled_line_is_found(tmp_path: Path) -> None:
    ledger = filled(tmp_path)
    lines = lines_of(ledger)
    rewrite(ledger, [lines[0], b"{garbage", *lines[2:]])
    assert "line 2: cannot be read" in ledger.verify()


def test_cut_off_tail_is_found_by_head(tmp_path: Path) -> None:
    ledger = filled(tmp_path)
    last = ledger.entries()[-1]
    cut = Ledger(tmp_path, lambda: {"sql": Head(last.n, last.hash)})
    assert cut.verify() == []
    rewrite(cut, lines_of(cut)[:2])
    assert cut.verify() == ["line 3: is missing, sql has seen line 4: the ledger was cut off"]


def test_rewritten_chain_is_found_by_head(tmp_path: Path) -> None:
    head = filled(tmp_path / "a").entries()[-1]
    forged = filled(tmp_path / "b")
    change = Change(Action.HOLD, "other", "forged", HUMAN, {})
    rewrite(forged, lines_of(forged)[:3])
    entry = next_entry(change, forged.tail(), head.payload, "sql", "run-2", head.at)
    forged.append(entry)
    checked = Ledger(tmp_path / "b", lambda: {"sql": Head(head.n, head.hash)})
    assert checked.verify() == ["line 4: is not the one curated was written with (sql)"]


def test_line_added_behind_head_is_found(tmp_path: Path) -> None:
    ledger = filled(tmp_path)
    head = ledger.entries()[2]
    checked = Ledger(tmp_path, lambda: {"sql": Head(head.n, head.hash)})
    assert checked.verify() == ["line 4: is unknown to curated (sql)"]


def test_missing_and_changed_payloads_are_found(tmp_path: Path) -> None:
    ledger = filled(tmp_path)
    first, second = ledger.entries()[:2]
    (ledger.payloads / f"{first.payload}.json").unlink()
    (ledger.payloads / f"{second.payload}.json").write_text('{"text":"other"}')
    problems = ledger.verify()
    assert problems[0].endswith("is missing") and problems[1].endswith("is changed")
    assert ledger.payload(first) is None and ledger.payload(second) is None


def test_unfinished_last_line_is_moved_aside(tmp_path: Path) -> None:
    ledger = filled(tmp_path)
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole + b'{"n": 5, "at"')
    aside = ledger.move_torn_tail_aside()
    assert aside is not None and aside.read_bytes() == b'{"n": 5, "at"'
    assert ledger.path.read_bytes() == whole
    assert ledger.move_torn_tail_aside() is None


def test_whole_unreadable_last_line_stays_and_stops(tmp_path: Path) -> None:
    ledger = filled(tmp_path)
    ledger.path.write_bytes(ledger.path.read_bytes() + b"not json\n")
    assert ledger.move_torn_tail_aside() is None
    with pytest.raises(LedgerBroken, match="line 5: cannot be read"):
        ledger.tail()


def test_ledger_that_is_a_folder_is_one_line(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.path.mkdir()
    with pytest.raises(StoreError, match=r"ledger\.jsonl cannot be used: is a directory"):
        ledger.entries()


@settings(max_examples=40, deadline=None)
@given(cut=st.integers(1, 400))
def test_any_torn_tail_leaves_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    ledger = filled(tmp_path_factory.mktemp("torn"), 2)
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole[: max(0, len(whole) - cut)])
    ledger.move_torn_tail_aside()
    assert whole.startswith(ledger.path.read_bytes())
    assert ledger.verify() == []


@settings(max_examples=40, deadline=None)
@given(text=st.text(alphabet=st.characters(), max_size=40))
def test_any_text_survives_in_payload(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    ledger = Ledger(tmp_path_factory.mktemp("payload"))  # T-26
    digest = ledger.store_payload({"text": text, "lone": "\udc8f", "list": [text]})
    assert ledger.payload_state(digest) == ""


def test_half_characters_in_reason_are_storable(tmp_path: Path) -> None:  # T-26
    ledger = Ledger(tmp_path)
    change = Change(Action.HOLD, "k", "typed \udc8f here", HUMAN, {})
    ledger.append(next_entry(change, None, ledger.store_payload({}), "sql", "r", "now"))
    assert ledger.verify() == []
    assert ledger.entries()[0].reason == "typed \ufffd here"
