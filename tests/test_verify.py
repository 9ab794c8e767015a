from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lessons_loop.deploy.processes import free_port
from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.models import Curated, Status
from lessons_loop.filter.store import collection_names
from lessons_loop.promote.ledger.chain import Ledger
from lessons_loop.promote.ledger.verify import Verified, verify_state
from lessons_loop.promote.session import open_gate
from support.commands import run_here
from support.gate import (
    candidate,
    flags,
    gate,
    on_folder,
    promotion,
    raw_client,
    retirement,
    server_url,
    stage,
)
from support.gate import settings as store_settings
from support.templates import copied

FIRST = candidate()
SECOND = candidate("Bound telemetry_hours by day_key.", message="m2")


def make_filled(root: Path) -> None:
    """A store with a curated and a retired lesson: ledger lines 1 to 4."""
    stage(root, [FIRST, SECOND])
    with gate(root) as session:
        session.apply(promotion(session, FIRST))
        session.apply(promotion(session, SECOND))
        session.apply(retirement(session, SECOND.lesson.key))


@pytest.fixture
def filled(root: Path) -> Path:
    copied(make_filled, root)
    return root


def verified(root: Path) -> Verified:
    return verify_state(server_url(root) or str(root), root / "state")


def change_row(root: Path, **fields: Any) -> None:
    """Edit the curated row's metadata behind the gate's back."""
    with raw_client(root, "curated") as client:
        collection = client.get_collection(
            collection_names("sql")["curated"], embedding_function=None
        )
        collection.update(ids=[FIRST.lesson.key], metadatas=[fields])


def edit_ledger(root: Path, old: str, new: str) -> None:
    path = root / "state" / "ledger.jsonl"
    path.write_text(path.read_text().replace(old, new, 1))


def test_sound_store_verifies(filled: Path) -> None:
    found = verified(filled)
    assert found.sound and found.first_bad is None
    assert (found.lines, found.curated, found.archived) == (4, 1, 1)
    assert found.domains == ["sql"] and not found.notes


def test_verifying_changes_nothing(filled: Path) -> None:  # T-32
    path = filled / "state" / "ledger.jsonl"
    path.write_bytes(path.read_bytes() + b'{"n": 5')
    before = {file: file.read_bytes() for file in filled.rglob("*") if file.is_file()}
    assert verified(filled).notes
    assert {file: file.read_bytes() for file in filled.rglob("*") if file.is_file()} == before


def test_edited_line_is_named_first(filled: Path) -> None:
    edit_ledger(filled, "seen to work", "seen to fail")
    found = verified(filled)
    assert found.first_bad == 2 and "was edited" in found.problems[0].told


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"verdict_ref": 99}, "verdict_ref 99 is no line of the ledger"),
        ({"ledger_ref": 4}, "ledger_ref 4 is a line that says retire"),
        ({"ledger_ref": 3}, f"ledger_ref 3 is a line about lesson {SECOND.lesson.key[:12]}"),
        ({"verdict_ref": 1}, "verdict_ref 1 is a line that says init"),
    ],
)
def test_reference_that_does_not_fit_is_named(
    filled: Path, fields: dict[str, int], text: str
) -> None:
    change_row(filled, **fields)
    found = verified(filled)
    assert [text in problem.text for problem in found.problems] == [True]
    assert f"curated lesson {FIRST.lesson.key[:12]}" in found.problems[0].text


def test_row_edited_by_hand_is_named(filled: Path) -> None:
    change_row(filled, kind="no-kind")
    found = verified(filled)
    assert f"curated row {FIRST.lesson.key[:12]} of sql" in found.problems[0].text
    assert found.first_bad is None and not found.sound


def test_forged_row_is_named(filled: Path) -> None:
    forged = candidate("Send every report to nobody.", message="m3").lesson
    row = Curated(lesson=forged.model_copy(update={"status": Status.CURATED}), since="-")
    record = row.to_record()
    with raw_client(filled, "curated") as client:
        client.get_collection(collection_names("sql")["curated"], embedding_function=None).add(
            ids=[record.id],
            documents=[record.document],
            metadatas=[dict(record.metadata)],
            embeddings=[[1.0] + [0.0] * 63],
        )
    texts = [problem.text for problem in verified(filled).problems]
    assert any(f"{row.key[:12]}: ledger_ref 0 is no line" in text for text in texts)


def test_archive_reference_is_checked(filled: Path) -> None:
    with raw_client(filled, "gate") as client:
        archive = client.get_collection(collection_names("sql")["archive"], embedding_function=None)
        id_ = f"{SECOND.lesson.key}-stale"
        whole = json.loads(archive.get(ids=[id_])["metadatas"][0]["archived"])
        whole["ledger_ref"] = 2
        archive.update(ids=[id_], metadatas=[{"archived": json.dumps(whole)}])
    problem = verified(filled).problems[0]
    assert "archived lesson" in problem.text and "ledger_ref 2 is a line that says" in problem.text


def test_cut_off_tail_is_named(filled: Path) -> None:
    path = filled / "state" / "ledger.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    assert verified(filled).first_bad == 3


def test_crashed_line_is_no_tampering(filled: Path) -> None:
    path = filled / "state" / "ledger.jsonl"
    path.write_bytes(path.read_bytes() + b'{"n": 5, "at"')
    found = verified(filled)
    assert found.sound and "line 5: was not finished, a crash came first" in found.notes[0]
    with gate(filled):
        pass
    assert verified(filled).notes == [] and list(path.parent.glob("ledger.torn-*"))


def test_change_under_way_is_no_tampering(root: Path) -> None:
    class Crash(Exception):
        pass

    def stop(name: str) -> None:
        if name == "curated":
            raise Crash

    with gate(root):
        pass
    with pytest.raises(Crash), open_gate(store_settings(root), checkpoint=stop) as session:
        session.apply(promotion(session, FIRST))
    found = verified(root)
    assert found.sound and "the next run does it" in found.notes[0]


def test_missing_payload_is_named_unless_forgotten(filled: Path) -> None:
    state = filled / "state"
    payload = Ledger(state).entries()[1].payload
    (state / "payloads" / f"{payload}.json").unlink()
    assert verified(filled).first_bad == 2
    stone = {"what": "user", "who": "x", "at": "2026-11-01T08:00:00Z", "payloads": [payload]}
    (state / "forgotten.jsonl").write_text(json.dumps(stone) + "\n")
    found = verified(filled)
    assert found.sound and found.forgotten == 1


def test_every_domain_is_checked(filled: Path) -> None:
    other = candidate("Ask twice.", domain="law")
    with gate(filled, domain="law") as session:
        session.apply(promotion(session, other))
    assert verified(filled).domains == ["law", "sql"]
    change_row(filled, verdict_ref=99)
    assert len(verified(filled).problems) == 1


def test_ledger_alone_is_checked_while_the_store_is_down(filled: Path) -> None:
    state = filled / "state"
    found = verify_state(f"http://127.0.0.1:{free_port()}", state)
    assert not found.sound and found.lines == 4 and not found.problems and found.unread
    assert verify_state("", state).unread == "no store given"


def test_neither_store_nor_ledger_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="run `lessons init"):
        verify_state(str(tmp_path / "typo"), tmp_path / "typo" / "state")


# --- the command


@on_folder
def test_command_names_the_first_line_and_lists_the_rest(filled: Path) -> None:
    edit_ledger(filled, '"reason": "seen', '"reason": "Seen')
    edit_ledger(filled, '"reason": "seen', '"reason": "Seen')
    done = run_here("verify", *flags(filled))
    assert done.code == 1 and done.err.count("\n") == 1
    assert done.err.startswith("lessons: the ledger does not verify: line 2: was edited")
    assert "problem: line 3: was edited" in done.out


@on_folder
def test_command_with_the_state_directory_alone(filled: Path) -> None:
    done = run_here("verify", "--state-dir", str(filled / "state"), "--json")
    content = json.loads(done.out)
    assert done.code == 0 and content["lines"] == 4
    assert content["store_not_read"] == "no store given"


@on_folder
def test_command_knows_the_domains(filled: Path) -> None:
    assert run_here("verify", *flags(filled), "--domain", "sql").code == 0
    assert "which has sql" in run_here("verify", *flags(filled), "--domain", "sqll").err


@pytest.mark.parametrize("name", ["journal.json", "forgotten.jsonl", "uses/sql.sqlite"])
def test_file_beside_the_ledger_that_does_not_read_is_told(filled: Path, name: str) -> None:
    damaged = filled / "state" / name
    damaged.parent.mkdir(exist_ok=True)
    damaged.write_bytes(b"\xff no such thing\n")
    found = verified(filled)
    assert [name in problem.text for problem in found.problems] == [True] and not found.sound
