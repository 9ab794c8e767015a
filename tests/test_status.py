"""`lessons status`: quick, live where it can be, and honest about what it did not see."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from rich.cells import cell_len

from lessons_loop.deploy.status.facts import StoreStatus
from lessons_loop.deploy.status.hidden import label_of
from lessons_loop.deploy.status.quick import quick_status
from lessons_loop.deploy.status.render import render_status, run_lines, spark
from lessons_loop.deploy.status.runs import read_tail
from lessons_loop.deploy.status.whole import read_status
from lessons_loop.filter.spool import Spool, oldest_spooled, spool_lock
from lessons_loop.filter.store import StorePaths, ensure_salt, file_lock
from lessons_loop.promote.records import Action, Change
from lessons_loop.promote.runs.register import Outcomes, RunLine, append_run
from lessons_loop.promote.session import open_gate
from support.chroma_server import ChromaServer
from support.commands import run_here
from support.gate import (
    HUMAN,
    HashEmbedder,
    candidate,
    flags,
    gate,
    on_folder,
    promotion,
    put_on_server,
    server_url,
    settings,
    stage,
)
from support.processes import soon
from support.relay import Relay
from support.templates import copied

HOSTILE = "Use \u202e\x1b[31mtable_x\x1b[0m and api_key=sk-fakefakefakefakefake1234 always."


def make_used(root: Path) -> None:
    """Three curated lessons, two of them used, and two candidates."""
    with gate(root) as session:
        for text in ("Look serials up first.", HOSTILE, "Bound hours by day_key."):
            session.apply(promotion(session, candidate(text)))
        rows = list(session.curated.values())[:2]
        fields = [{"hits": 9, "successes": 4}, {"hits": 3, "successes": 1, "failures": 2}]
        put = [row.model_copy(update=new) for row, new in zip(rows, fields, strict=True)]
        session.apply(Change(Action.FOLD, "uses", "counted", HUMAN, {}, put=tuple(put)))
    if not server_url(root):
        ensure_salt(StorePaths(root))
    stage(root, [candidate("Ask for the plant.", message=f"m{n}") for n in (1, 2)])


@pytest.fixture
def used(root: Path) -> Path:
    copied(make_used, root)
    return root


def quick(root: Path) -> StoreStatus:
    """Look quickly; a busy server may need longer than a look waits, and is looked at again."""
    found: list[StoreStatus] = []

    def seen() -> bool:
        look = quick_status(*store_and_state(root), [])
        assert look is not None
        found.append(look)
        return not server_url(root) or all(one.candidates is not None for one in look.domains)

    assert soon(seen)
    return found[-1]


def store_and_state(root: Path) -> tuple[str, Path]:
    return server_url(root) or str(root), root / "state"


def test_quick_says_what_the_check_says(used: Path) -> None:
    fast, deep = quick(used), read_status(*store_and_state(used), [])
    for name in (
        "curated",
        "published",
        "candidates",
        "held",
        "floor",
        "used",
        "hits",
        "embedding",
    ):
        if name != "embedding" or server_url(used) == "":
            assert getattr(fast.domains[0], name) == getattr(deep.domains[0], name), name
    assert fast.problems == deep.problems == [] and fast.records == deep.records
    assert fast.ledger_lines == deep.ledger_lines and fast.last_run == deep.last_run
    assert (fast.checked, deep.checked) == (False, True) and fast.decay == deep.decay


def test_candidates_are_counted_live(used: Path) -> None:
    assert quick(used).domains[0].candidates == 2
    stage(used, [candidate("Name the unit.", message="m3")])
    assert quick(used).domains[0].candidates == 3


@on_folder
def test_locked_staging_is_unknown_at_once(used: Path) -> None:
    with closing(sqlite3.connect(used / "staging" / "chroma.sqlite3")) as held:
        held.execute("begin exclusive")
        found = quick(used)
    assert found.domains[0].candidates is None and found.domains[0].curated == 3
    assert "cannot be looked at now" in found.notes[0] and found.problems == []


def test_server_that_is_down_leaves_the_rest(
    tmp_path: Path, chroma_server: ChromaServer, store_url: str
) -> None:
    with Relay(chroma_server.base) as relay:
        put_on_server(tmp_path / "there", store_url.replace(chroma_server.base, relay.base))
        with gate(tmp_path / "there") as session:
            session.apply(promotion(session, candidate()))
    done = run_here("status", *flags(tmp_path / "there"))
    assert done.code == 1 and "1 curated (? published)" in done.out
    assert "cannot be looked at now" in " ".join(done.out.split()) and "verified" in done.out


def test_without_a_summary_the_store_is_read(used: Path) -> None:
    (used / "state" / "summary" / "sql.json").unlink()
    assert quick_status(*store_and_state(used), []) is None
    done = run_here("status", *flags(used), "--json")
    assert done.code == 0 and json.loads(done.out)["checked"] is True


def test_records_begin_with_the_worst(used: Path) -> None:
    found = quick(used).records["sql"]
    assert [record.failures for record in found] == [2, 0] and found[0].hits == 3
    shown = run_here("status", *flags(used), "--all").out
    assert "2 lessons used" in shown and "\x1b" not in shown and "sk-fake" not in shown


@on_folder
def test_hidden_lessons_have_a_cause(used: Path) -> None:
    assert quick(used).hidden == []
    StorePaths(used).published("sql").unlink()
    (found,) = quick(used).hidden
    assert (found.lessons, found.cause) == (3, "what recall reads cannot be read")


def test_domains_of_different_models_are_told(used: Path) -> None:
    other = HashEmbedder(48)
    with gate(used, other, domain="ops") as session:
        session.apply(promotion(session, candidate("Restart the pod.", domain="ops")))
    (found,) = [one for one in quick(used).hidden if "another model" in one.cause]
    assert (found.domain, found.remedy) == ("sql", "lessons reembed --domain sql")


def test_domain_no_chat_uses_is_told(used: Path) -> None:
    with gate(used, domain="ops") as session:
        session.apply(promotion(session, candidate("Restart the pod.", domain="ops")))
    (found,) = [one for one in quick(used).hidden if "no chat" in one.cause]
    assert (found.domain, found.lessons) == ("ops", 1)


def test_another_models_name_is_a_note(used: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LESSONS_EMBEDDING", "openai:other-model@http://127.0.0.1:9/v1")
    found = quick(used)
    assert "LESSONS_EMBEDDING names openai:other-model" in found.notes[0] and not found.hidden


def test_row_edited_by_hand_is_hidden(used: Path) -> None:
    from support.gate import raw_client

    with raw_client(used, "curated") as client:
        collection = client.get_collection("sql-lessons", embedding_function=None)
        first = collection.get()["ids"][0]
        collection.update(ids=[first], metadatas=[{"trigger": ""}])
    with gate(used) as session:
        assert [*session.unreadable_curated] == [first]
    (found,) = [one for one in quick(used).hidden if "edited" in one.cause]
    assert found.keys == (first,) and found.lessons == 1


def test_pause_and_preview_are_told(used: Path) -> None:
    append_run(used / "state", RunLine(run="r", domain="sql", preview=True, started="2026-11-01"))
    assert run_here("pause", *flags(used), "--reason", "a leak").code == 0
    shown = " ".join(run_here("status", *flags(used)).out.split())
    assert "a leak" in shown and "lessons confirm" in shown and "preview" in shown


@on_folder
@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_edited_ledger_line_is_named(used: Path, at: int) -> None:
    ledger = used / "state" / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    lines[at] = lines[at].replace(b'"reason": "', b'"reason": "x', 1)
    ledger.write_bytes(b"".join(lines))
    done = run_here("status", *flags(used))
    assert done.code == 1 and f"line {at + 1}: was edited" in done.out


@on_folder
def test_cut_off_ledger_is_told(used: Path) -> None:
    ledger = used / "state" / "ledger.jsonl"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:-1]))
    assert "cut off" in " ".join(quick(used).problems)


@on_folder
def test_tail_of_a_long_ledger_is_checked(used: Path) -> None:
    path = used / "state" / "ledger.jsonl"
    whole, part = read_tail(path), read_tail(path, most=700)
    assert (part.lines, part.problems, part.torn) == (whole.lines, [], False)
    assert 0 < len(part.entries) < len(whole.entries) and part.entries[-1] == whole.entries[-1]
    path.write_bytes(path.read_bytes() + b'{"n": 9')
    assert read_tail(path).torn and read_tail(path).problems == []


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_runs_fit_any_width(width: int) -> None:
    lines = [
        RunLine(run=str(n), domain=f"domain-{n % 2}", mode="unattended", error="x" * 90)
        for n in range(14)
    ]
    assert all(cell_len(row) <= width for row in run_lines(lines, width))
    assert "14" not in render_status(StoreStatus("x" * 300, [], 0, 0, runs=lines), width)[:1]


def test_sparkline_shows_none_and_most() -> None:
    assert spark([0, 1, 4, 8]) == "·▂▅█" and spark([]) == "" and spark([0]) == "·"
    assert run_lines([RunLine(run="1", domain="sql", outcomes=Outcomes(promoted=3))], 80)


@pytest.mark.parametrize(
    ("setting", "model"),
    [
        ("openai:bge-m3@http://127.0.0.1:1/v1", "openai:bge-m3"),
        ("sentence-transformers:all-MiniLM-L6-v2", "sentence-transformers:all-MiniLM-L6-v2"),
        ("sentence-transformers:/some/where/model/", "sentence-transformers:model"),
        ("none", ""),
        ("", ""),
        ("minilm:", "minilm"),
    ],
)
def test_setting_names_a_model(setting: str, model: str) -> None:
    assert label_of(setting) == model


def test_a_domain_is_told_its_own_runs(root: Path) -> None:
    """Of three domains each one's ledger lines, runs and errors are its own, on both ways."""
    for name in ("law", "ops", "sql"):  # in order: two may end in one second
        with open_gate(settings(root, domain=name), run=f"made-{name}") as session:
            session.apply(promotion(session, candidate(domain=name)))
        append_run(root / "state", RunLine(run=f"r-{name}", domain=name, mode="auto"))
    append_run(root / "state", RunLine(run="r-bad", domain="sql", mode="auto", error="no model"))
    store, state = store_and_state(root)
    for names, last in ((["law"], "law"), (["law", "ops"], "ops"), ([], "sql")):
        for found in (quick_status(store, state, names), read_status(store, state, names)):
            assert found is not None and found.last_run.endswith(f"made-{last}")
            assert {one.domain for one in found.runs} == set(names or ("law", "ops", "sql"))
            assert any("no model" in note for note in found.notes) is (not names)


def test_run_without_a_decision_is_the_last_one(used: Path) -> None:
    before = quick(used).last_run
    known = {"domain": "sql", "mode": "auto"}
    late = "2999-01-0{}T00:00:00Z"
    append_run(used / "state", RunLine(run="idle", ended=late.format(1), **known))
    append_run(used / "state", RunLine(run="p", ended=late.format(2), preview=True, **known))
    append_run(used / "state", RunLine(run="e", ended=late.format(3), error="no model", **known))
    assert quick(used).last_run == f"{late.format(1)} idle" > before
    assert read_status(*store_and_state(used), []).last_run == quick(used).last_run


@pytest.mark.parametrize("held", [True, False])
@on_folder
def test_records_that_wait_long_are_told_in_one_line(used: Path, held: bool) -> None:
    paths = StorePaths(used)
    spool = Spool(paths)
    spool.append_candidates([candidate("Name the unit.", message="m8")])
    assert "since" not in render_status(quick(used), 200)
    os.utime(oldest_spooled(paths.spool) or "", (1.7e9, 1.7e9))
    with file_lock(spool_lock(paths), 1) if held else nullcontext():
        for found in (quick(used), read_status(*store_and_state(used), [])):
            assert (found.spool, found.spool_held) == (1, held)
            (line,) = [row for row in render_status(found, 200).splitlines() if "spool" in row]
            assert "1 record waiting for staging since 2023-11-14T22:13:20Z: " in line
            assert ("end the one that hangs" in line) is held
