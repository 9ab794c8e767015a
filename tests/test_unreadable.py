"""Rows nobody can read leave staging once they are old: copied, read back, then deleted."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.models import Record
from lessons_loop.filter.store import STAGING_VECTOR, collection_names
from lessons_loop.promote.clock import iso
from lessons_loop.promote.decay.fold_rows import WAIT_DAYS
from lessons_loop.promote.errors import LedgerBroken
from lessons_loop.promote.forget.forget import forget
from lessons_loop.promote.forget.forgotten import mark
from lessons_loop.promote.gate import Mode
from lessons_loop.promote.records import Action
from lessons_loop.promote.runs.drive import RunOptions, run_gate
from lessons_loop.promote.runs.report import RunReport
from lessons_loop.promote.session import open_gate
from lessons_loop.promote.store.candidates import ROW_LIMIT, read_candidates
from lessons_loop.promote.store.unreadable import (
    LATER_DAYS,
    TOTAL_BYTES,
    Due,
    Unreadable,
    copy_of,
    pages,
    read_seen,
    read_unreadable,
    set_aside_old,
    too_old,
)
from support.commands import run_here
from support.forgetting import ANNA, said
from support.gate import (
    candidate,
    flags,
    gate,
    located,
    on_folder,
    promotion,
    raw_client,
    settings,
    stage,
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SECRET = "sk-test-FAKE0123456789abcdefFAKE"
DAY = timedelta(days=1)


def forge(root: Path, rows: dict[str, dict[str, Any]], document: str = "some text") -> None:
    """Put rows into staging that are no candidates."""
    with gate(root):
        pass
    with raw_client(root, "staging") as client:
        name = collection_names("sql")["candidates"]
        collection = client.get_or_create_collection(name, embedding_function=None)
        for id_, metadata in rows.items():
            vectors: Any = [STAGING_VECTOR]
            collection.add(
                ids=[id_], documents=[document], metadatas=[metadata], embeddings=vectors
            )


def at(days: float) -> dict[str, str]:
    return {"at": iso(NOW + days * DAY)}


def left(root: Path) -> set[str]:
    return {row.record.id for row in read_unreadable(located(root), "sql")}


def leave(root: Path, days: float = 0, *, write: bool = True, embedder: Any = None) -> int:
    with open_gate(settings(root, embedder), now=lambda: NOW + days * DAY) as session:
        return set_aside_old(session, write=write)


def copies(root: Path) -> list[dict[str, Any]]:
    files = sorted((root / "state" / "unreadable" / "sql").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_bytes().splitlines()]


def run(root: Path, mode: Mode, days: float = 0, **fields: Any) -> RunReport:
    with open_gate(settings(root, **fields), now=lambda: NOW + days * DAY) as session:
        return run_gate(session, RunOptions(mode))


def test_old_rows_are_copied_then_deleted(root: Path) -> None:
    stage(root, [candidate()])
    forge(root, {"old": at(-WAIT_DAYS - 1), "young": at(-WAIT_DAYS + 1), "odd": {"at": "soon"}})
    assert leave(root) == 1
    assert left(root) == {"young", "odd"}
    assert len(read_candidates(located(root), "sql").candidates) == 1
    (copy,) = copies(root)
    assert (copy["id"], copy["document"]) == ("old", "some text") and "domain" in copy["why"]
    assert copy["metadata"] == [["at", iso(NOW - (WAIT_DAYS + 1) * DAY)]]


@pytest.mark.parametrize("told", [{"n": 1}, {"at": "soon"}, {"at": "9999-01-01"}, {"at": 7}])
def test_rows_without_a_time_count_from_the_first_look(root: Path, told: dict[str, Any]) -> None:
    forge(root, {"odd": told})
    assert leave(root, write=False) == leave(root) == 0  # the first writes nothing down
    assert leave(root, WAIT_DAYS - 1) == 0
    assert leave(root, WAIT_DAYS + 0.5) == 1 and left(root) == set()
    assert read_seen(root / "state" / "unreadable" / "sql" / "seen.json") == {}


@on_folder
@pytest.mark.parametrize("text", ["", "{", "[1]", '{"x": 3}', "\udcff"])
def test_lost_note_of_times_keeps_rows_longer(root: Path, text: str) -> None:
    forge(root, {"odd": {"n": 1}})
    leave(root)
    note = root / "state" / "unreadable" / "sql" / "seen.json"
    note.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert leave(root, WAIT_DAYS + 1) == 0 and left(root) == {"odd"}
    assert leave(root, 2 * WAIT_DAYS + 2) == 1


@on_folder
def test_clock_set_back_starts_the_wait_anew(root: Path) -> None:
    forge(root, {"odd": {"n": 1}})
    leave(root, 1000)
    assert leave(root, 0) == leave(root, WAIT_DAYS - 1) == 0
    assert leave(root, WAIT_DAYS + 1) == 1


def test_rows_of_a_later_plugin_wait_a_year(root: Path) -> None:
    row = candidate(at=iso(NOW)).to_record()
    forge(root, {row.id: {**row.metadata, "mood": "sure"}}, row.document)
    assert [found.later for found in read_unreadable(located(root), "sql")] == [True]
    assert leave(root, LATER_DAYS - 1) == 0
    assert leave(root, LATER_DAYS + 1) == 1


def test_preview_tells_and_changes_nothing(root: Path) -> None:
    forge(root, {"old": at(-99), "odd": {"n": 1}})
    for report in (run(root, Mode.NONE), run(root, Mode.RULES, dry_run=True)):
        assert (report.unreadable, report.set_aside) == (2, 1)
    assert left(root) == {"old", "odd"} and not (root / "state" / "unreadable").exists()
    said_so = run_here("promote", *flags(root)).out
    assert "if carried out:" in said_so and "1 of them copied aside and deleted" in said_so


def test_writing_run_tells_and_the_ledger_keeps_it(root: Path) -> None:
    forge(root, {"old": at(-99), "odd": {"n": 1}})
    report = run(root, Mode.RULES)
    assert report.counts()["set_aside"] == 1 and left(root) == {"odd"}
    with gate(root) as session:
        line = [one for one in session.ledger.entries() if one.action is Action.PURGE][-1]
        payload = session.ledger.payload(line)
    assert line.actor.name == "unreadable" and payload is not None and payload["rows"] == 1
    assert run(root, Mode.RULES).set_aside == 0


def test_copies_are_masked_and_the_owners_alone(root: Path) -> None:
    hidden = f"key {SECRET} \u202e\x1b[31m 你好"
    forge(root, {f"id {SECRET}": {**at(-99), SECRET: hidden, "l": [SECRET]}}, hidden)
    assert leave(root) == 1
    for path in (root / "state" / "unreadable").rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert stat.S_IMODE(path.stat().st_mode) == (0o600 if path.is_file() else 0o700)
        assert SECRET.encode() not in content and content.isascii() and b"\x1b" not in content


def test_rows_stay_where_they_cannot_be_copied(root: Path) -> None:
    forge(root, {"old": at(-99)})
    (root / "state" / "unreadable").write_text("in the way")
    with pytest.raises(StoreError, match="unreadable cannot be used"):
        leave(root)
    assert left(root) == {"old"}


@pytest.mark.parametrize("step", ["copied aside", "payload", "ledger", "journal", "staged"])
def test_run_ended_half_way_is_finished_by_the_next(root: Path, step: str) -> None:
    forge(root, {"old": at(-99)})

    def stop(name: str) -> None:
        if name == step:
            raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        open_gate(settings(root), now=lambda: NOW, checkpoint=stop) as session,
    ):
        set_aside_old(session, write=True)
    assert [copy["id"] for copy in copies(root)] == ["old"]
    leave(root)
    assert left(root) == set() and {copy["id"] for copy in copies(root)} == {"old"}


def test_copy_that_does_not_read_back_keeps_the_rows(root: Path) -> None:
    forge(root, {"old": at(-99)})

    def spoil(name: str) -> None:
        for file in (root / "state" / "unreadable" / "sql").glob("*.jsonl"):
            file.write_bytes(file.read_bytes()[:-9])

    with (
        pytest.raises(StoreError, match="is not what was written: the rows stay in staging"),
        open_gate(settings(root), now=lambda: NOW, checkpoint=spoil) as session,
    ):
        set_aside_old(session, write=True)
    assert left(root) == {"old"}


def test_forgotten_are_in_no_copy(root: Path) -> None:
    with gate(root):
        pass
    row = said(root, "Join by serial only.", ANNA, "m1").to_record()
    forge(root, {"x": {**row.metadata, **at(-99)}})
    leave(root)
    whose = str(row.metadata["user_ref"])
    assert any(whose in json.dumps(copy) for copy in copies(root)) and len(mark(whose)) == 64
    told = forget(settings(root, dry_run=True), "user", ANNA)
    assert (told.files, told.nothing, len(copies(root))) == (1, False, 1)
    assert forget(settings(root), "user", ANNA).files == 1
    assert copies(root) == []


def test_huge_row_leaves_its_id(root: Path) -> None:
    forge(root, {"huge" + "y" * 300: {"n": 1, **at(-99)}}, "x" * (ROW_LIMIT + 1))
    assert leave(root) == 0  # its time is not read either: it counts from now
    assert leave(root, WAIT_DAYS + 1) == 1 and left(root) == set()
    (copy,) = copies(root)
    assert copy["id"].startswith("hugey") and len(copy["id"]) == 200 and copy["document"] == ""


def test_oldest_copies_make_room(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.jsonl").write_bytes(b"x" * 10)
    first, second, third = sorted(tmp_path.iterdir())
    assert too_old(third, 30) == []
    assert too_old(third, 15) == [first, second]
    assert too_old(first, 5) == [second, third]  # made after the clock was set back


def test_older_copies_stay_until_rows_have_left(root: Path) -> None:
    forge(root, {"old": at(-99)})
    folder = root / "state" / "unreadable" / "sql"
    folder.mkdir(parents=True)
    with (folder / "earlier.jsonl").open("wb") as earlier:
        earlier.truncate(TOTAL_BYTES)
    dropped = []

    def look(name: str) -> None:
        if name == "staged":
            dropped.append((folder / "earlier.jsonl").exists())

    with open_gate(settings(root), now=lambda: NOW, checkpoint=look) as session:
        assert set_aside_old(session, write=True) == 1
        line = session.ledger.entries()[-1]
    assert dropped == [True] and not (folder / "earlier.jsonl").exists()
    assert line.reason.endswith("copied aside; 1 older file of such copies dropped")


def test_run_that_may_decide_nothing_copies_nothing(root: Path) -> None:
    forge(root, {"old": at(-99)})
    with gate(root) as session:
        session.apply(promotion(session, candidate()))
    ledger = root / "state" / "ledger.jsonl"
    first, *rest = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(first.replace(b"created", b"altered") + b"".join(rest))
    with pytest.raises(LedgerBroken):
        leave(root)
    assert copies(root) == [] and left(root) == {"old"}


def test_many_rows_become_several_files() -> None:
    due = [Due(Unreadable(Record(f"r{n}", "x" * 90, {}), "why", False), NOW) for n in range(10)]
    size = len(copy_of(due[0]))
    found = list(pages(due, 3 * size))
    assert [len(page) for page in found] == [3, 3, 3, 1]
    assert [id_ for page in found for id_, _ in page] == [f"r{n}" for n in range(10)]


@given(
    st.text(),
    st.text(),
    st.dictionaries(st.text(), st.text() | st.integers() | st.floats() | st.lists(st.text())),
)
def test_any_row_is_one_line(id_: str, document: str, metadata: dict[str, Any]) -> None:
    line = copy_of(Due(Unreadable(Record(id_, document, metadata), "why", False), NOW))
    assert line.isascii() and line.count(b"\n") == 1 and line.endswith(b"\n")
    assert len(json.loads(line)["metadata"]) == len(metadata)
