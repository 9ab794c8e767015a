"""A run's report: true figures, hostile texts as text, nothing loaded, unfinished runs told."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.eval.report.charts import (
    Cost,
    Moment,
    Move,
    Spot,
    costs,
    dumbbells,
    rates_over_runs,
    slopes,
)
from lessons_loop.eval.report.comparison import Report, finish_run, history_line, read_report
from lessons_loop.eval.report.page import render_page
from lessons_loop.eval.runs.facts import read_facts
from lessons_loop.eval.runs.folder import RunFolder
from lessons_loop.eval.runs.history import append_history
from lessons_loop.eval.trials import Arm, ToolCall, Trial
from lessons_loop.promote.lint.hidden import find_hidden
from support.commands import run_here
from support.grading import many, run_on_disk, settings, trials_of
from support.pages import Tags

HOSTILE = "<script>alert(1)</script> & \"q\" '\u202e' </title><img src=x onerror=y> \x1b[31m "
SECRET = "sk-proj-" + "obviouslyfake0123456789" * 2
HELPED = [
    *many(20, off="---", on="+++"),
    *many(10, start=20, off="+++", on="+++"),
    *many(2, start=30, off="+++", on="-+-"),
    *many(4, start=40, control=True, off="+++", on="+++"),
]


def expecting(trials: list[Trial], *, more: int = 0) -> dict[str, object]:
    """Return the question part of a run.json that fits the trials."""
    count = len({one.question for one in trials}) + more
    return {"name": "sql", "digest": "ab" * 32, "count": count}


def on_disk(path: Path, trials: list[Trial], **known: object) -> Report:
    known = {"questions": expecting(trials), **known}
    return read_report(run_on_disk(path, trials, **known))


def hostile(trial: Trial) -> Trial:
    call = ToolCall(tool=HOSTILE, arguments=SECRET, result=HOSTILE + SECRET, failed=True)
    answer = trial.answer.model_copy(update={"text": HOSTILE + SECRET, "calls": (call,)})
    told = {"answer": answer, "why": HOSTILE + SECRET, "topic": HOSTILE, "graded_by": HOSTILE}
    return trial.model_copy(update=told | {"question": HOSTILE + trial.question})


def hostile_run(path: Path) -> RunFolder:
    trials = [hostile(trial) for trial in many(3, off="---", on="+-+")]
    agent = {"model": HOSTILE + SECRET, "url": HOSTILE}
    folder = run_on_disk(path, trials, agent=agent, judge=HOSTILE, begun=HOSTILE)
    texts = {one.question: {"messages": [{"role": "user", "content": HOSTILE}]} for one in trials}
    (path / "questions.json").write_text(json.dumps(texts), "utf-8")
    return folder


def test_arms_stand_side_by_side(tmp_path: Path) -> None:  # T-38
    lines = on_disk(tmp_path / "r", HELPED).lines()
    assert any(re.fullmatch(r" +off +on", line) for line in lines)
    assert any(re.fullmatch(r"passed +36 of 96 +92 of 96", line) for line in lines)
    assert any(line.startswith("VERDICT: helps. Lessons help: +5") for line in lines)


def test_flips_are_listed_and_what_says_nothing_is_counted(tmp_path: Path) -> None:  # T-38
    text = "\n".join(on_disk(tmp_path / "r", HELPED).lines())
    assert "20 fixed, 2 broken, 10 unchanged; 10 of 32 pass without lessons" in text
    assert re.search(r"broken +q30 +3/3 to 1/3 +some runs", text)
    assert re.search(r"fixed +q0 +0/3 to 3/3 +every run", text)


def test_mean_gain_does_not_hide_a_loss(tmp_path: Path) -> None:  # T-38
    trials = many(30, off="---", on="+++") + many(2, start=30, off="+++", on="---")
    report = on_disk(tmp_path / "r", trials)
    assert report.primary and report.primary.verdict == "helps"
    for told in (" ".join(report.lines()), render_page(report)):
        assert "LOST: 2 questions pass in every run without lessons" in told
    assert "LOST" not in " ".join(on_disk(tmp_path / "other", HELPED).lines())


def test_controls_are_told_apart(tmp_path: Path) -> None:
    report = on_disk(tmp_path / "r", HELPED)
    assert "4 controls: off 100.0 %, on 100.0 %; 0 fixed, 0 broken, net +0" in report.lines()
    assert report.controls[Arm.ON].judged == 12 and report.arms[Arm.ON].judged == 96


def test_unfinished_run_says_so(tmp_path: Path) -> None:
    report = on_disk(tmp_path / "r", HELPED, questions=expecting(HELPED, more=4))
    text = " ".join(report.lines())
    assert not report.finished and "UNFINISHED: 216 of 240 trials" in text
    assert "Unfinished: 216 of 240" in render_page(report)
    assert report.as_dict()["finished"] is False


def test_stand_in_is_told_wherever_figures_are(tmp_path: Path) -> None:
    report = on_disk(tmp_path / "r", HELPED, stand_in=True)
    for told in (" ".join(report.lines()), render_page(report)):
        assert "A script stood in for the model" in re.sub(r"\s+", " ", told)
    assert report.as_dict()["settings"]["stand_in"] is True
    assert history_line(report).stand_in is True


def test_missing_grades_are_counted_apart(tmp_path: Path) -> None:
    trials = HELPED + trials_of("gone", off="???", on="+++")
    text = " ".join(on_disk(tmp_path / "r", trials).lines())
    assert "unjudged: 3 of 222 trials, 3 of them outages; 1 question left out" in text


def test_every_pair_of_arms_has_its_sentence(tmp_path: Path) -> None:
    trials = many(30, off="-+-", on="+++", placebo="-+-", off_again="+--")
    report = on_disk(tmp_path / "r", trials, arms=["off", "on", "placebo", "off-again"])
    said = report.as_dict()["said"]
    assert len(said) == 4 and said[0].startswith("helps. Lessons help: +66.7 points")
    assert "Placebo lessons" in said[1] and "No lessons again" in said[2]
    assert "against placebo lessons" in said[3] and max(map(len, report.lines())) <= 80


@pytest.mark.parametrize("arms", [{"off": "+-+"}, {"on": "+++"}, {"off": "+-", "off_again": "-+"}])
def test_run_without_on_and_off_has_no_verdict(arms: dict[str, str], tmp_path: Path) -> None:
    report = on_disk(tmp_path / "r", many(8, **arms), arms=[*arms])
    page = render_page(report)
    assert report.primary is None and report.as_dict()["verdict"] is None
    assert "No verdict on lessons" in page and "VERDICT" not in " ".join(report.lines())
    assert history_line(report).verdict == ""


def test_all_unjudged_is_no_verdict_of_anything(tmp_path: Path) -> None:
    report = on_disk(tmp_path / "r", many(5, off="???", on="???"))
    assert report.primary and report.primary.verdict == "underpowered"
    assert "nan" not in render_page(report) and any("pass rate" in line for line in report.lines())


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:  # T-70
    page = render_page(read_report(hostile_run(tmp_path / "r")))
    found = Tags(page)
    assert not {"script", "img"} & {*found.tags}
    assert [name for name, _ in found.attributes if name.startswith("on")] == []
    assert "\u202e" not in page and "\x1b" not in page and "&lt;script&gt;alert(1)" in page


def test_page_loads_nothing(tmp_path: Path) -> None:
    page = render_page(read_report(hostile_run(tmp_path / "r")))
    found = Tags(page)
    assert not {"link", "iframe", "object", "embed", "base", "form", "a"} & {*found.tags}
    assert [value for name, value in found.attributes if name in ("src", "href")] == []
    assert re.findall(r"url\(|@import", page) == [] and "default-src 'none'" in page


def test_secrets_are_masked_everywhere(tmp_path: Path) -> None:
    report = read_report(hostile_run(tmp_path / "r"))
    for told in (render_page(report), "\n".join(report.lines()), json.dumps(report.as_dict())):
        assert "obviouslyfake" not in told


def test_no_line_is_wide_or_steers_a_terminal(tmp_path: Path) -> None:  # T-70
    lines = read_report(hostile_run(tmp_path / "r")).lines()
    assert max(map(len, lines)) <= 80
    assert [found for line in lines for found in find_hidden(line)] == []


def test_page_shows_question_answer_and_why(tmp_path: Path) -> None:
    folder = run_on_disk(tmp_path / "r", many(2, off="-", on="?"))
    asked = {"q0": {"messages": [{"role": "user", "content": "How many hours?"}]}}
    (folder.path / "questions.json").write_text(json.dumps(asked))
    page = render_page(read_report(folder))
    assert "user: How many hours?" in page and "no answer within 2 s" in page and ">42<" in page


def test_files_hold_figures_and_no_text(tmp_path: Path) -> None:
    folder = run_on_disk(tmp_path / "r", HELPED, questions=expecting(HELPED))
    report = finish_run(folder)
    kept = json.loads(folder.report_json.read_text())
    assert kept == report.as_dict() and kept["verdict"] == "helps"
    assert [one["id"] for one in kept["flips"]["broken"]] == ["q30", "q31"]
    assert folder.report_html.stat().st_mode & 0o077 == 0 and "42" not in json.dumps(kept["said"])


def test_page_draws_earlier_runs(tmp_path: Path) -> None:
    state = tmp_path / "state"
    first = on_disk(state / "eval" / "sql" / "20261129T080000Z", HELPED)
    append_history(state, history_line(first, "baseline", "2026-11-29T09:00:00Z"))
    page = render_page(on_disk(state / "eval" / "sql" / "20261130T080000Z", HELPED))
    assert "baseline 11-29" in page and page.count("this run") >= 1


@pytest.mark.parametrize("content", ["", "[]", "{", '{"runs": "x", "arms": 3, "questions": []}'])
def test_odd_settings_are_one_line_or_left_out(content: str, tmp_path: Path) -> None:
    folder = run_on_disk(tmp_path / "r", HELPED)
    folder.settings_file.write_text(content)
    done = run_here("eval", "report", str(folder.path))
    assert done.code == 0 or (done.code == 1 and done.err.count("\n") == 1)
    assert "Traceback" not in done.err and bool(done.out) is (done.code == 0)


@given(st.recursive(st.none() | st.integers() | st.text() | st.floats(), st.lists))
def test_any_settings_are_read(value: object) -> None:
    for name in settings():
        assert read_facts({name: value}).runs >= 1


def test_command_prints_lines_json_and_a_page(tmp_path: Path) -> None:
    folder = run_on_disk(tmp_path / "r", HELPED, questions=expecting(HELPED))
    page = tmp_path / "page.html"
    shown = run_here("eval", "report", str(folder.path), "--html", str(page))
    assert (shown.code, shown.err) == (0, "") and str(page) in shown.out
    assert page.read_text("utf-8").startswith("<!doctype html>")
    as_json = run_here("eval", "report", str(folder.path), "--json")
    assert json.loads(as_json.out)["verdict"] == "helps"


@pytest.mark.parametrize("where", ["state", "local", "both"])
def test_latest_is_the_run_begun_last(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    state = tmp_path / "s" / "state"
    if where != "local":
        for name in ("law/20261130T080000000000Z", "sql/20261129T080000000000Z"):
            run_on_disk(state / "eval" / name, HELPED)
        run_on_disk(state / "eval" / "sql" / "20261231T080000000000Z", [])  # no trial yet
        (state / "eval" / "history").mkdir()
    if where != "state":
        run_on_disk(tmp_path / "lessons-eval" / "20261201T080000000000Z", HELPED)
    given = [] if where == "local" else ["--store", str(tmp_path / "s")]
    done = run_here("eval", "report", "latest", *given, "--json")
    assert done.code == 0, done.err
    newest = "20261130" if where == "state" else "20261201"
    assert Path(json.loads(done.out)["folder"]).name.startswith(newest)
    if where != "local":
        of_sql = run_here("eval", "report", "latest", *given, "--domain", "sql")
        assert of_sql.code == 0 and "20261129T08" in of_sql.out


def test_latest_without_a_run_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_here("eval", "report", "latest", "--state-dir", str(tmp_path))
    assert (done.code, done.out) == (1, "") and "name a folder" in done.err
    named = run_on_disk(tmp_path / "latest", HELPED)  # a folder of that name is that folder
    assert run_here("eval", "report", named.path.name).code == 0


def test_reading_a_run_changes_no_byte(tmp_path: Path) -> None:
    folder = run_on_disk(tmp_path / "r", HELPED)
    before = {path: path.read_bytes() for path in folder.path.iterdir()}
    assert run_here("eval", "report", str(folder.path)).code == 0
    assert {path: path.read_bytes() for path in folder.path.iterdir()} == before


@pytest.mark.parametrize("there", [False, True])
def test_folder_without_a_run_is_one_line(there: bool, tmp_path: Path) -> None:
    if there:
        (tmp_path / "r").mkdir()
    done = run_here("eval", "report", str(tmp_path / "r"))
    assert (done.code, done.out) == (1, "") and "holds no run" in done.err


def test_run_without_a_trial_is_one_line(tmp_path: Path) -> None:
    done = run_here("eval", "report", str(run_on_disk(tmp_path / "r", []).path))
    assert (done.code, done.out) == (1, "") and "holds no trial yet" in done.err


rates = st.floats(0, 1)


@given(st.lists(st.tuples(st.text(max_size=30), rates, rates), max_size=6))
def test_plots_stay_inside_their_picture(rows: list[tuple[str, float, float]]) -> None:
    moves = [Move(label, label, one, other) for label, one, other in rows]
    spots = [Moment(label, (Spot("on", label, one, one, other),)) for label, one, other in rows]
    bars = [Cost(label, (("on", one, "1"), ("off", other, "2"))) for label, one, other in rows]
    drawn = [dumbbells(moves, "n"), slopes(moves, "n", ("off", "on"))]
    for svg in (*drawn, rates_over_runs(spots, "n"), costs(bars, "n")):
        numbers = re.findall(r'(?:cx|cy|x|y|width)="(-?[\d.]+)"', svg)
        assert all(-1 <= float(one) <= 600 for one in numbers) and "nan" not in svg


def test_questions_that_seeds_cover_are_told_apart(tmp_path: Path) -> None:
    folder = run_on_disk(tmp_path / "r", HELPED, questions=expecting(HELPED))
    kept = {f"q{n}": {"messages": [], "covers": ["hours"] if n < 20 else []} for n in range(44)}
    (folder.path / "questions.json").write_text(json.dumps(kept))
    report = read_report(folder)
    assert [(part.questions, part.lift) for part in report.parts()] == [(20, 1.0), (12, -0.111111)]
    assert any(line.startswith("20 questions covered by seeds: +100.0") for line in report.lines())


def test_many_answers_of_a_question_are_cut(tmp_path: Path) -> None:
    page = render_page(on_disk(tmp_path / "r", trials_of("q", off="+" * 40, on="+" * 40)))
    assert "The first 24 of 80 answers" in page and page.count("<pre>") == 24
