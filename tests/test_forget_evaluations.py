"""Forgetting reaches recorded evaluations; nothing else in the state trips over them."""

from __future__ import annotations

import html
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.promote.forget.evaluations import evaluations, spellings
from lessons_loop.promote.forget.forget import ForgetReport, forget
from lessons_loop.promote.snapshot.kept import list_snapshots
from lessons_loop.promote.store.scratch import working_copy
from support.commands import run_here
from support.forgetting import ALONE, ANNA, HELD, SHARED, fill
from support.gate import gate, located, on_folder, settings
from support.templates import copied


@pytest.fixture
def filled(root: Path) -> Path:
    copied(fill, root)
    return root


def record_run(root: Path, name: str, text: str) -> Path:
    """Leave a run whose requests hold a lesson."""
    folder = located(root).state / "eval" / "sql" / name
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    row = {"request": {"messages": [{"role": "system", "content": f"1. {text} [x]"}]}}
    (folder / "exchanges.jsonl").write_text(json.dumps(row) + "\n")
    return folder


def forget_anna(root: Path, **fields: object) -> ForgetReport:
    return forget(settings(root, None, **fields), "user", ANNA)


def test_runs_that_showed_it_go(filled: Path) -> None:
    gone = [record_run(filled, "one", ALONE), record_run(filled, "two", HELD)]
    stay = record_run(filled, "three", "Bound telemetry by site.")
    cached = located(filled).state / "eval" / "baseline" / "0123.json"
    cached.parent.mkdir()
    cached.write_text(json.dumps({"text": ALONE}))
    report = forget_anna(filled)
    assert report.evaluations == 3
    assert [path.exists() for path in (*gone, cached)] == [False] * 3
    assert stay.exists()


def test_runs_of_lessons_that_stay_are_kept(filled: Path) -> None:
    shared = record_run(filled, "one", SHARED)  # others showed it too
    assert forget_anna(filled).evaluations == 0
    assert shared.exists()


def test_dry_run_counts_them_and_keeps_them(filled: Path) -> None:
    folder = record_run(filled, "one", ALONE)
    report = forget_anna(filled, dry_run=True)
    assert report.evaluations == 1 and folder.exists()


@on_folder
def test_the_command_tells_of_them(filled: Path) -> None:
    record_run(filled, "one", ALONE)
    done = run_here("forget", "--user", ANNA, "--yes", "--store", str(filled))
    assert (done.code, "      1  recorded evaluations" in done.out) == (0, True)


def test_dry_runs_copy_no_evaluation(filled: Path) -> None:
    record_run(filled, "one", SHARED)
    with working_copy(located(filled), "sql", True) as copy:
        assert copy.state.is_dir() and not (copy.state / "eval").exists()
        assert (copy.state / "ledger.jsonl").exists()


@on_folder
def test_no_other_command_minds_them(filled: Path) -> None:
    folder = record_run(filled, "one", SHARED)
    (folder / "trials.jsonl").write_text('{"torn')
    for words in (["status"], ["verify"], ["repair"], ["snapshot", "create", "--reason", "x"]):
        done = run_here(*words, "--store", str(filled))
        assert (done.code, "eval" in done.out + done.err) == (0, False), words
    assert list_snapshots(filled / "state", "sql") != [] and folder.exists()
    with gate(filled) as session:
        assert session.curated


@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60))
def test_any_text_is_found_however_it_is_spelled(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    said = set(spellings(text))
    assert text in said and html.escape(text) in said
    assert json.dumps({"a": [f"x {text} y"]})[10:].startswith(json.dumps(text)[1:-1])
    assert json.dumps(text)[1:-1] in said and json.dumps(text, ensure_ascii=False)[1:-1] in said


def test_without_evaluations_nothing_is_looked_for(tmp_path: Path) -> None:
    assert evaluations(tmp_path, ["x"]) == [] == evaluations(tmp_path, [])
