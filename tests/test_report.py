"""The report page: true figures, hostile texts as text, nothing loaded from anywhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.deploy.report.data import growth, rate_of, read_report
from lessons_loop.deploy.report.page import render_page
from lessons_loop.eval.report.svg import ticks
from lessons_loop.promote.clock import parse_iso
from lessons_loop.promote.decay.uses import Use
from lessons_loop.promote.ledger.chain import Ledger
from lessons_loop.promote.records import Action, Change
from lessons_loop.promote.runs.register import Outcomes, RunLine, append_run
from lessons_loop.promote.runs.summary import LessonRecord
from support.commands import run_here
from support.forgetting import ANNA, fill
from support.gate import HUMAN, candidate, flags, gate, promotion, retirement
from support.judging import EmbeddingServer
from support.pages import Tags

HOSTILE = "Use <script>alert(1)</script> & \"quotes\" '\u202e' </title><img src=x onerror=y> now."
NOW = parse_iso("2026-11-30T00:00:00Z")


@pytest.fixture
def used(root: Path) -> Path:
    """A store whose one lesson has a hostile text, a use, a judgement and a run."""
    use = Use(id="u1", message_ref="m1", at="2026-11-29T10:00:00Z", keys=("k",), rating="down")
    with gate(root) as session:
        change = promotion(session, candidate(HOSTILE))
        session.apply(change)
        row = change.put[0].model_copy(update={"hits": 3, "failures": 1})
        folded = Change(Action.FOLD, "uses", "counted", HUMAN, {}, put=(row,), uses=(use,))
        session.apply(folded)
    line = RunLine(run="r<b>1", domain="sql", started="2026-11-29T03:00:00Z", error=HOSTILE)
    append_run(root / "state", line.model_copy(update={"outcomes": Outcomes(promoted=1)}))
    return root


def page_of(root: Path, tmp_path: Path) -> str:
    file = tmp_path / "report.html"
    done = run_here("report", *flags(root), "--html", str(file))
    assert (done.code, done.err) == (0, "") and str(file) in done.out
    return file.read_text("utf-8")


def test_hostile_text_stays_text(used: Path, tmp_path: Path) -> None:  # T-70
    page = page_of(used, tmp_path)
    found = Tags(page)
    assert not {"script", "img", "b1"} & {*found.tags}
    assert "&lt;script&gt;alert(1)" in page and "<U+202E>" not in page and "\u202e" not in page
    assert [name for name, _ in found.attributes if name.startswith("on")] == []


def test_page_loads_nothing(used: Path, tmp_path: Path) -> None:
    page = page_of(used, tmp_path)
    found = Tags(page)
    assert not {"link", "iframe", "object", "embed", "base", "form"} & {*found.tags}
    assert [value for name, value in found.attributes if name in ("src", "href")] == []
    assert re.findall(r"url\(|@import", page) == []
    assert "default-src 'none'" in page


def test_page_shows_the_figures(used: Path) -> None:
    (found,) = read_report(used / "state", ["sql"])
    assert (found.summary.curated, found.summary.hits, found.base) == (1, 3, 0.0)
    assert [count for _, count in found.growth][-1] == 1
    assert [tuple(day) for day in found.days] == [("2026-11-29", 1, 0, 1)]
    assert found.rates[0].record.failures == 1 and found.runs[0].outcomes.promoted == 1


def test_empty_store_has_a_page(root: Path, tmp_path: Path) -> None:
    with gate(root):
        pass
    page = page_of(root, tmp_path)
    assert "nothing was promoted yet" in page or "Curated lessons" in page
    assert "no use was judged yet" in page and not re.search(r"\bnan\b", page)


def test_store_need_not_be_reachable(used: Path, tmp_path: Path) -> None:
    shown = render_page("x", read_report(used / "state", ["sql", "gone"]), NOW)
    assert shown.count("<section>") == 2


def test_json_names_the_file(used: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.html"
    done = run_here("report", *flags(used), "--html", str(file), "--json")
    assert json.loads(done.out)["file"] == str(file) and file.exists()


def test_device_is_written_to_and_stays(used: Path) -> None:
    assert run_here("report", *flags(used), "--html", "/dev/null").code == 0
    assert Path("/dev/null").is_char_device()


def test_folder_that_is_missing_is_one_line(used: Path, tmp_path: Path) -> None:
    done = run_here("report", *flags(used), "--html", str(tmp_path / "none" / "r.html"))
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)


def test_growth_follows_the_ledger(root: Path) -> None:
    with gate(root) as session:
        first = promotion(session, candidate("Look serials up first."))
        session.apply(first)
        session.apply(promotion(session, candidate("Bound hours by day_key.")))
        session.apply(retirement(session, first.key))
        count = len(session.curated)
    ledger = Ledger(root / "state")
    assert growth(ledger.entries(), lambda entry: ledger.payload(entry) or {})[-1][1] == count == 1


def test_growth_ends_where_curated_is(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever lets lessons in or takes them out: forget, restore, import, revive."""
    fill(root)
    file, told = str(tmp_path / "lessons.jsonl"), ["--reason", "tried"]
    with gate(root) as session:
        one, other = session.curated
    with EmbeddingServer() as server:
        monkeypatch.setenv("LESSONS_EMBEDDING", server.setting)
        for words in (
            ["reembed", "--domain", "sql"],
            ["export", file, "--status", "all"],
            ["demote", one, *told],
            ["revive", one, "--force", *told],
            ["import", file, "--force", *told],
            ["demote", one, *told],
            ["revive", one, "--supersede", other, *told],
            ["restore", "latest", *told],
            ["forget", "--user", ANNA, "--yes"],
        ):
            done = run_here(*words, *flags(root))
            assert done.code == 0, (words, done.err)
            (found,) = read_report(root / "state", ["sql"])
            assert found.growth[-1][1] == found.summary.curated, (words, done.out)


@given(st.integers(0, 400), st.integers(0, 400))
def test_bounds_hold_the_rate(good: int, bad: int) -> None:
    if good + bad:
        found = rate_of(LessonRecord(key="k", successes=good, failures=bad))
        assert 0.0 <= found.low <= found.rate + 1e-9 and found.rate - 1e-9 <= found.high <= 1.0


@given(st.floats(0, 1e9))
def test_ticks_reach_the_top(top: float) -> None:
    found = ticks(top)
    assert found[0] == 0 and found[-1] >= top and 2 <= len(found) <= 6
