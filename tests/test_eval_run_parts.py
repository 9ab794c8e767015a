"""Arms, progress, settings, what a resumed run drops."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.eval.runs.folder import RunFolder
from lessons_loop.eval.runs.progress_line import ProgressLine, spoken
from lessons_loop.eval.runs.resume import drop_unfinished
from lessons_loop.eval.runs.runner import run_trials
from lessons_loop.eval.runs.sets import parse_arms
from lessons_loop.eval.runs.setup import (
    AgentSettings,
    NoAgent,
    agent_settings,
    open_grader,
    reference_rows,
)
from lessons_loop.eval.trials import Answer, Arm, Grade, Trial, trial_seed
from lessons_loop.filter.errors import LessonsError
from support.evaluating_runs import DOWN, Told, by_seed, graded, plan_of, question

KEY = "sk-obviously-fake-0123456789abcdef"


@pytest.mark.parametrize(
    ("given", "arms"),
    [
        ("off,on", [Arm.OFF, Arm.ON]),
        (" ON , off,on,", [Arm.OFF, Arm.ON]),
        ("aa", [Arm.OFF, Arm.OFF_AGAIN]),
        ("off,on,placebo,aa", [Arm.OFF, Arm.ON, Arm.PLACEBO, Arm.OFF_AGAIN]),
    ],
)
def test_arms_are_read(given: str, arms: list[Arm]) -> None:
    assert list(parse_arms(given, lessons=True)) == arms


@given(st.text(max_size=30))
def test_any_text_is_arms_or_one_line(text: str) -> None:
    try:
        assert parse_arms(text, lessons=False)
    except LessonsError as error:
        assert str(error)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def trial(grade: Grade, arm: Arm = Arm.ON) -> Trial:
    return Trial(question="q", topic="t", arm=arm, run=1, answer=Answer(), grade=grade)


def test_terminal_gets_one_line_with_totals_only() -> None:
    stream, clock = Terminal(), iter(range(0, 1000, 10))
    line = ProgressLine(stream, clock=lambda: float(next(clock)))
    for done in (1, 2, 3):
        line(done, 6, trial(Grade.PASS if done > 1 else Grade.FAIL))
    line.end()
    shown = stream.getvalue().split("\r")
    assert "asked 3 of 6, 67 % pass, 30 s left" in shown and "\n" not in stream.getvalue()
    assert shown[-1] == "" and shown[-2].strip() == ""
    assert "off" not in stream.getvalue() and "on," not in stream.getvalue()


@pytest.mark.parametrize(("total", "lines"), [(480, 10), (7, 7), (1, 1)])
def test_pipe_gets_about_ten_lines(total: int, lines: int) -> None:
    stream = io.StringIO()
    line = ProgressLine(stream)
    for done in range(1, total + 1):
        line(done, total, trial(Grade.UNJUDGED))
    line.end()
    told = stream.getvalue().splitlines()
    assert len(told) == lines and told[-1].startswith(f"lessons: asked {total} of {total}")
    assert all(len(one) <= 80 and "unjudged" in one for one in told)


def test_resumed_run_counts_its_own_speed() -> None:
    stream, clock = Terminal(), iter([0.0, 10.0])
    line = ProgressLine(stream, begun_with=90, clock=lambda: next(clock))
    line(91, 100, trial(Grade.PASS))
    assert "90 s left" not in stream.getvalue() and "2 min left" in stream.getvalue()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "0 s"), (89, "89 s"), (90, "2 min"), (3600, "60 min"), (7500, "2 h 05 min")],
)
def test_time_left_is_spoken(seconds: float, words: str) -> None:
    assert spoken(seconds) == words


def test_settings_hide_the_key(tmp_path: Path) -> None:
    tools = tmp_path / "tools.py"
    tools.write_text("class Tools: pass")
    found = agent_settings(
        f"http://me:{KEY}@127.0.0.1:1/v1?key={KEY}",
        " m ",
        KEY,
        tools=tools,
        tool_valves=json.dumps({"token": KEY}),
        system=f"The password is {KEY}.",
    )
    assert KEY not in repr(found).replace(found.url, "").replace(found.system, "")
    assert KEY not in json.dumps(found.recorded())
    assert found.recorded()["tool_valves"] == ["token"] and found.model == "m"


def test_other_system_prompts_are_other_agents() -> None:
    one, other = (AgentSettings("u", "m", system=text).recorded() for text in ("a", "b"))
    assert one["system_digest"] != other["system_digest"]


def test_environment_names_the_agent() -> None:
    names = {"LESSONS_EVAL_URL": "http://127.0.0.1:1/v1", "LESSONS_EVAL_MODEL": "m"}
    assert AgentSettings.from_environment(names).require().model == "m"
    with pytest.raises(NoAgent, match="LESSONS_EVAL_URL"):
        AgentSettings.from_environment({}).require()


def test_reference_database_is_read_only(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "with space.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (a)")
        connection.execute("insert into t values (1)")
    connection.close()
    rows = reference_rows(path)
    assert rows("select a from t") == [(1,)]
    with pytest.raises(LessonsError, match="reference query failed"):
        rows("delete from t")
    assert rows("select count(*) from t") == [(1,)]


def test_grader_without_a_judge_says_what_is_missing() -> None:
    rubric = question("q").model_copy(update={"checks": (), "rubric": "It is polite."})
    grade, why, by = open_grader(AgentSettings())(rubric, Answer(text="Hello"))
    assert (grade, by) == (Grade.UNJUDGED, "") and "--judge manual" in why


def test_unfinished_exchanges_are_dropped(tmp_path: Path) -> None:
    folder, plan = RunFolder(tmp_path / "run"), plan_of(3)
    with folder.held():
        folder.begin({"seed": 7})
    stopped = Told(lambda name, arm, seed: "" if name == "q2" else by_seed(name, arm, seed))
    run_trials(plan, stopped, graded, folder, max_unjudged=1.0)
    seeds = {(name, arm): trial_seed(7, name, arm, 1) for name, arm, _ in stopped.asked}
    rows = [{"request": {"seed": seed}, "reply": name} for (name, _), seed in seeds.items()]
    rows += [{"request": {}}, {"request": {"seed": 3}}]
    text = "".join(json.dumps(row) + "\n" for row in rows) + '{"torn'
    folder.exchanges_file.write_text(text)
    assert drop_unfinished(folder, plan) == 2 + 1  # both arms of q2, and the torn line
    kept = folder.exchanges_file.read_text()
    assert "q2" not in kept and kept.count("\n") == len(rows) - 2
    assert {t.answer.outage for t in folder.trials() if t.question == "q2"} == {DOWN}
