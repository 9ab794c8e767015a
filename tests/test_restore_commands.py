"""What an operator types: list, look, undo; and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lessons_loop.promote.snapshot.files import name_of
from support.commands import Done, run_here
from support.gate import candidate, flags, gate, promotion, shown
from support.restoring import fill
from support.snapshots import TEXTS, snapshots


def run(root: Path, *words: str) -> Done:
    return run_here(*words, *flags(root))


def test_incident_is_undone_with_one_command(root: Path) -> None:
    fill(root)
    bad = candidate("Trust every chat.", message="bad")
    with gate(root) as session:
        session.apply(promotion(session, bad))
    assert run(root, "pause").code == 0
    told = run(root, "restore", "latest", "--reason", "a bad run")
    assert told.code == 0 and "undo it with: lessons restore 20" in told.out
    assert "undoes: 1 promote" in told.out
    assert [row.lesson.text for row in shown(root).lessons] == [TEXTS[0]]
    assert "nothing to change" in run(root, "restore", "latest").out
    with gate(root, despite_pause=True) as session:
        last = session.ledger.entries()[-1]
    assert (last.action, last.actor.kind) == ("restore", "human")
    assert last.reason.endswith(": a bad run")


def test_restore_names_its_own_undo(root: Path) -> None:
    fill(root)
    before = [row.key for row in shown(root).lessons]
    told = run(root, "restore", name_of(snapshots(root)[1]))
    assert len(shown(root).lessons) == 2
    words = told.out.split("undo it with: lessons ")[1].split()
    assert run(root, *words).code == 0
    assert [row.key for row in shown(root).lessons] == before


def test_dry_run_tells_what_the_restore_then_does(root: Path) -> None:
    fill(root)
    when = name_of(snapshots(root)[1])
    would = json.loads(run(root, "restore", when, "--dry-run", "--json").out)
    seen = json.loads(run(root, "snapshot", "show", when, "--json").out)["differs"]
    did = json.loads(run(root, "restore", when, "--json").out)
    changing = ("curated", "archive", "candidates", "events", "uses")
    assert [would[name] for name in changing] == [did[name] for name in changing]
    assert [seen[name] for name in changing] == [did[name] for name in changing]
    assert (would["written"], did["written"]) == (False, True)


def test_list_tells_what_was_done_after_each(root: Path) -> None:
    fill(root)
    run(root, "snapshot", "create", "--reason", "before the move")
    rows = json.loads(run(root, "snapshot", "list", "--json").out)["snapshots"]
    assert [row["why"] for row in rows][-1] == "before the move"
    assert rows[0]["then"] == "2 promote" and rows[1]["then"].endswith("fold, 1 retire")
    assert rows[-1]["counts"]["uses"] == 3


def test_list_works_where_the_store_is_gone(root: Path) -> None:
    fill(root)
    snapshots(root)[0].write_bytes(b"spoiled")
    for note in root.glob("server.url"):
        note.write_text("http://127.0.0.1:9")
    told = run(root, "snapshot", "list")
    assert told.code == 0 and "cannot be" in told.out


def test_folders_of_the_last_release_are_told(tmp_path: Path) -> None:
    fill(tmp_path / "store")
    old = tmp_path / "store" / "state" / "snapshots" / "20260101T000000000000Z-run-1"
    old.mkdir()
    (old / "manifest.json").write_text("{}")
    assert "1 folder(s) of an earlier release" in run(tmp_path / "store", "snapshot", "list").out
    assert old.exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("restore", "2020"), "is called|that old"),
        (("restore", "latest", "--domain", "other"), "no snapshot of other"),
        (("snapshot", "show", "nonsense"), "is called 'nonsense'"),
        (("snapshot", "create", "--domain", "typo"), "no domain typo"),
    ],
)
def test_mistakes_end_in_one_line(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    import re

    fill(tmp_path / "store")
    done = run(tmp_path / "store", *words)
    lines = [line for line in done.err.splitlines() if "waits for" not in line]
    assert done.code == 1 and len(lines) == 1 and re.search(told, lines[0])


def test_spoiled_snapshot_is_refused(root: Path) -> None:
    fill(root)
    path = snapshots(root)[1]
    path.write_bytes(path.read_bytes()[:-9])
    done = run(root, "restore", name_of(path))
    assert done.code == 1 and "is damaged" in done.err and len(shown(root).lessons) == 1
