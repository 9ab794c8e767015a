from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_ledger_check import ENTRIES, LINES, RAW, WHOLE

from lessons_loop.promote.ledger.chain import Head, Ledger
from lessons_loop.promote.ledger.check import chain_problems, head_problems
from lessons_loop.promote.ledger.mend import find_mending, mend, read_pending
from lessons_loop.promote.session import open_gate
from support.gate import candidate, gate, promotion, stage
from support.gate import settings as store_settings

LAST = LINES - 1


def state_with(folder: Path, content: bytes, name: str = "", lines: int = 1) -> Ledger:
    """Return a ledger with that file; the last `lines` stand in a journal file too."""
    folder.mkdir(exist_ok=True)
    (folder / "ledger.jsonl").write_bytes(content)
    if name:
        entries = [one.model_dump(mode="json") for one in ENTRIES[LINES - lines :]]
        (folder / name).write_text(json.dumps({"entries": entries}))
    return Ledger(folder)


def seen(number: int) -> dict[str, Head]:
    return {"sql": Head(number, ENTRIES[number - 1].hash)}


def sound(ledger: Ledger, heads: dict[str, Head]) -> bool:
    lines = ledger.lines()
    return not chain_problems(lines) and not head_problems(lines, heads, ENTRIES[LAST:])


@settings(max_examples=80, deadline=None)
@given(cut=st.integers(1, len(RAW[-1]) - 1))
def test_unacknowledged_line_goes_aside(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    ledger = state_with(tmp_path_factory.mktemp("torn"), WHOLE[:-cut])
    found = mend(ledger, seen(LAST))
    assert ledger.entries() == ENTRIES[:LAST] and sound(ledger, seen(LAST))
    aside = next(ledger.path.parent.glob("ledger.torn-*"))
    assert aside.read_bytes() == RAW[-1][:-cut] and aside.name in found.told[0]


@settings(max_examples=80, deadline=None)
@given(cut=st.integers(1, len(RAW[-1])))
def test_line_the_journal_holds_is_written_again(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    ledger = state_with(tmp_path_factory.mktemp("torn"), WHOLE[:-cut], "journal.json")
    assert mend(ledger, seen(LAST)).told
    assert ledger.path.read_bytes() == WHOLE and sound(ledger, seen(LINES))
    assert mend(ledger, seen(LINES)).told == []


@settings(max_examples=60, deadline=None)
@given(length=st.integers(len(WHOLE) - sum(map(len, RAW[-3:])), len(WHOLE)))
def test_lines_of_a_batch_are_written_again(
    tmp_path_factory: pytest.TempPathFactory, length: int
) -> None:
    folder = tmp_path_factory.mktemp("batch")
    ledger = state_with(folder, WHOLE[:length], "journal.json", lines=3)
    mend(ledger, seen(LINES - 3))
    assert ledger.path.read_bytes() == WHOLE


def test_missing_newline_of_a_line_curated_has_seen_is_added(tmp_path: Path) -> None:
    ledger = state_with(tmp_path / "s", WHOLE[:-1])
    assert mend(ledger, seen(LINES)).told == [
        f"line {LINES}: a crash left out its end, which is added"
    ]
    assert ledger.path.read_bytes() == WHOLE


def test_draft_alone_binds_nothing(tmp_path: Path) -> None:
    ledger = state_with(tmp_path / "s", b"".join(RAW[:LAST]), "journal.draft")
    assert mend(ledger, seen(LAST)).told == []
    assert ledger.entries() == ENTRIES[:LAST]


def test_draft_with_a_line_in_the_ledger_is_completed(tmp_path: Path) -> None:
    ledger = state_with(tmp_path / "s", b"".join(RAW[:-2]), "journal.draft", lines=3)
    mend(ledger, seen(LINES - 3))
    assert ledger.path.read_bytes() == WHOLE


def test_lost_acknowledged_line_stays_a_problem(tmp_path: Path) -> None:
    ledger = state_with(tmp_path / "s", WHOLE[:-9])
    mend(ledger, seen(LINES))
    assert not sound(ledger, seen(LINES))


@settings(max_examples=60, deadline=None)
@given(length=st.integers(0, len(WHOLE)), edited=st.integers(0, len(WHOLE) - 1))
def test_no_whole_line_is_ever_changed(
    tmp_path_factory: pytest.TempPathFactory, length: int, edited: int
) -> None:
    content = (WHOLE[:edited] + b"#" + WHOLE[edited + 1 :])[:length]
    ledger = state_with(tmp_path_factory.mktemp("any"), content, "journal.json", lines=2)
    mend(ledger, seen(LAST))
    whole = content[: content.rfind(b"\n") + 1]
    assert ledger.path.read_bytes().startswith(whole)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"entry": 3}', '{"entries": [{}]}', "\x00"])
def test_unreadable_journal_mends_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "journal.json").write_text(text)
    assert read_pending(tmp_path) == ((), ())
    assert find_mending([], read_pending(tmp_path), {}).told == []


@pytest.mark.parametrize("cut", [1, 40, None])
def test_gate_carries_on_after_a_lost_last_line(root: Path, cut: int | None) -> None:
    """A power cut took the ledger's last line; the journal holds the change."""
    first, second = candidate(), candidate("Bound telemetry_hours by day_key.", message="m2")
    stage(root, [first, second])
    path = root / "state" / "ledger.jsonl"

    class PowerCut(Exception):
        pass

    def stop(name: str) -> None:
        if name == "journal" and path.read_bytes().count(b"\n") == 3:
            raise PowerCut

    with pytest.raises(PowerCut), open_gate(store_settings(root), checkpoint=stop) as session:
        session.apply(promotion(session, first))
        session.apply(promotion(session, second))
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    path.write_bytes(whole[: -(cut or len(last))])
    with gate(root) as session:
        assert path.read_bytes() == whole
        assert set(session.curated) == {first.lesson.key, second.lesson.key}
        assert session.ledger.verify() == [] and session.candidates() == []
