"""`lessons eval run`: from the command line to a verdict, with a real model server and stores."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from lessons_loop.eval.runs.history import read_history
from lessons_loop.eval.trials import Arm, Grade
from support.commands import run_here
from support.evaluating_runs import (
    QUESTIONS,
    agent_words,
    practice_model,
    question_folder,
    told,
    trials_in,
)
from support.gate import located, on_folder, server_url

FIXTURE = Path(__file__).parent / "fixtures" / "eval" / "recorded-run"
KEY = "sk-obviously-fake-0123456789abcdef"


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with practice_model() as server:
        yield server.url


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    return question_folder(tmp_path)


def place_of(root: Path, embedding: str) -> list[str]:
    """Return the options of a store, the domain sql seeded."""
    where = server_url(root) or str(root)
    place = ["--store", where, "--state-dir", str(located(root).state), "--embedding", embedding]
    assert run_here("init", *place, "--domain", "sql", "--seeds").code == 0
    return place


def bytes_of(root: Path) -> dict[str, str]:
    """Return a digest of every file of a store but evaluations and lock files."""
    return {
        str(file.relative_to(root)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in root.rglob("*")
        if file.is_file() and "eval" not in file.parts and not file.name.endswith(".lock")
    }


def verdicts(out: str) -> list[str]:
    return [line for line in out.splitlines() if line.startswith(("VERDICT", "also", "pass"))]


def test_all_arms_on_a_store_that_keeps_every_byte(
    root: Path, embedding: str, model: str, database: Path, questions: Path
) -> None:
    place = place_of(root, embedding)
    before = bytes_of(root)
    words = agent_words(model, database, questions, "--arms", "off,on,placebo,aa", "--runs", "2")
    done = run_here(*words, "--domain", "sql", *place)
    assert done.code == 0, done.err
    assert bytes_of(root) == before
    assert "a script stood in for the model" in " ".join(done.out.split()).lower()
    (history,) = read_history(located(root).state, "sql")
    folder = located(root).state / "eval" / "sql" / history.run
    trials = trials_in(folder)
    assert len(trials) == 4 * 4 * 2
    passed = {arm: sum(t.grade is Grade.PASS for t in trials if t.arm is arm) for arm in Arm}
    assert passed[Arm.ON] >= passed[Arm.OFF] == passed[Arm.OFF_AGAIN] == passed[Arm.PLACEBO] > 0
    shown = {arm: sum(len(t.answer.recalled) for t in trials if t.arm is arm) for arm in Arm}
    assert shown[Arm.ON] == shown[Arm.PLACEBO] > 0 == shown[Arm.OFF] == shown[Arm.OFF_AGAIN]


@on_folder
def test_replay_needs_no_model_and_gives_the_same(
    root: Path, embedding: str, database: Path, questions: Path, tmp_path: Path
) -> None:
    place = place_of(root, embedding)
    with practice_model(0.3) as server:
        words = agent_words(server.url, database, questions, "--arms", "off,on,placebo,aa")
        first = run_here(*words, "--domain", "sql", *place, "--out", str(tmp_path / "one"))
    assert first.code == 0, first.err
    again = run_here(
        "eval", "run", "--replay", str(tmp_path / "one"), "--out", str(tmp_path / "two")
    )
    assert again.code == 0, again.err
    assert trials_in(tmp_path / "two") == trials_in(tmp_path / "one")
    first_lines, again_lines = (verdicts(done.out) for done in (first, again))
    assert first_lines == again_lines != []


@on_folder
def test_other_checks_grade_a_recording_anew(
    root: Path, model: str, database: Path, questions: Path, tmp_path: Path
) -> None:
    words = agent_words(model, database, questions, "--arms", "off", "--runs", "1")
    assert run_here(*words, "--out", str(tmp_path / "one")).code == 0
    strict = question_folder(tmp_path / "strict", QUESTIONS.replace("391", "392"))
    done = run_here(
        *("eval", "run", "--replay", str(tmp_path / "one"), "--out", str(tmp_path / "two")),
        *("--questions", str(strict)),
    )
    assert done.code == 0, done.err
    grades = [
        {t.question: t.grade for t in trials_in(tmp_path / name)}["small-sum"]
        for name in ("one", "two")
    ]
    assert grades == [Grade.PASS, Grade.FAIL]


def test_json_is_one_document(model: str, database: Path, questions: Path, tmp_path: Path) -> None:
    words = agent_words(model, database, questions, "--arms", "aa", "--runs", "1")
    done = run_here(*words, "--out", str(tmp_path / "run"), "--json")
    assert done.code == 0 and isinstance(json.loads(done.out), dict)
    assert "4 questions (1 of them controls)" in done.err


def test_no_secret_is_kept_or_shown(
    model: str, database: Path, questions: Path, tmp_path: Path
) -> None:
    address = model.replace("http://", f"http://me:{KEY}@")
    words = agent_words(address, database, questions, "--arms", "off", "--runs", "1")
    done = run_here(*words, "--agent-key", KEY, "--judge-key", KEY, "--out", str(tmp_path / "run"))
    assert done.code == 0, done.err
    kept = b"".join(file.read_bytes() for file in (tmp_path / "run").iterdir())
    assert KEY.encode() not in kept and KEY not in done.out + done.err
    assert str(database).encode() not in (tmp_path / "run" / "exchanges.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--arms", "off,up"], "unknown arm 'up'"),
        (["--arms", ","], "no arm given"),
        (["--arms", "off,placebo"], "arm placebo needs lessons: give --store"),
        (["--arms", "off,on"], "arm on needs lessons: give --store"),
        (["--agent-model", ""], "no agent: give --agent-url and --agent-model"),
        (["--tools", "/nowhere.py"], "no such file"),
        (["--tool-valves", "[1]"], "must be one JSON object"),
        (["--agent-url", "nonsense"], "no http"),
        (["--domain", "Not One"], "not allowed"),
        (["--replay", "."], "holds no run"),
        (["--resume", "."], "holds no run"),
        (["--judge", "manual"], "needs a terminal"),
        (["--openwebui", "http://127.0.0.1:9", "--token", "x"], "127.0.0.1:9"),
        (["--openwebui", "http://127.0.0.1:9", "--arms", "placebo"], "knows no placebo"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    model: str,
    database: Path,
    questions: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    out = [] if "--resume" in more else ["--out", str(tmp_path / "run")]
    done = run_here(*agent_words(model, database, questions, "--arms", "off"), *out, *more)
    assert done.code == 1 and said in told(done)
    assert not (tmp_path / "run" / "trials.jsonl").exists()


@pytest.mark.parametrize("content", [None, "", "[]"])
def test_no_questions_are_refused(tmp_path: Path, model: str, content: str | None) -> None:
    folder = tmp_path / "questions"
    folder.mkdir()
    if content is not None:
        (folder / "none.yaml").write_text(content)
    agent = ["--agent-url", model, "--agent-model", "practice-model"]
    done = run_here("eval", "run", "--questions", str(folder), *agent)
    assert done.code == 1 and "question" in told(done)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--agent-model", "other-model"], "agent.model practice-model, not other-model"),
        (["--runs", "2"], "runs 1, not 2"),
        (["--system", "Be brief."], "agent.system"),
        (["--tool-valves", "{}"], "agent.tool_valves"),
    ],
)
def test_going_on_otherwise_names_both(
    model: str, database: Path, questions: Path, tmp_path: Path, more: list[str], said: str
) -> None:
    words = agent_words(model, database, questions, "--arms", "off", "--runs", "1")
    out = str(tmp_path / "run")
    assert run_here(*words, "--out", out).code == 0
    done = run_here(*words, "--out", out, *more)
    assert done.code == 1 and said in told(done)


def test_changed_questions_are_another_run(
    model: str, database: Path, questions: Path, tmp_path: Path
) -> None:
    words = agent_words(model, database, questions, "--arms", "off", "--runs", "1")
    out = str(tmp_path / "run")
    assert run_here(*words, "--out", out).code == 0
    question_folder(tmp_path, QUESTIONS.replace("17 times 23", "17 times 24"))
    done = run_here(*words, "--out", out)
    assert done.code == 1 and "questions.digest" in told(done)


def test_run_without_a_record_is_no_replay(
    model: str, database: Path, questions: Path, tmp_path: Path
) -> None:
    words = agent_words(model, database, questions, "--arms", "off", "--runs", "1")
    assert run_here(*words, "--out", str(tmp_path / "run")).code == 0
    (tmp_path / "run" / "exchanges.jsonl").unlink()
    done = run_here("eval", "run", "--replay", str(tmp_path / "run"), "--out", str(tmp_path / "x"))
    assert done.code == 1 and "holds no recording" in done.err


@pytest.mark.parametrize(
    "more",
    [
        ["--out", "a", "--resume", "b"],
        ["--replay", "a", "--resume", "b"],
        ["--demo", "--openwebui", "http://127.0.0.1:9"],
        ["--judge", "somebody"],
        ["--judge-url", "http://127.0.0.1:9"],
        ["--runs", "0"],
        ["--agent-seconds", "inf"],
    ],
)
def test_what_excludes_itself_is_usage(
    model: str, database: Path, questions: Path, more: list[str]
) -> None:
    done = run_here(*agent_words(model, database, questions, "--arms", "off"), *more)
    assert done.code == 2 or "holds no run" in done.err
    assert told(done)


def test_shipped_recording_still_gives_its_figures(tmp_path: Path) -> None:
    done = run_here("eval", "run", "--replay", str(FIXTURE), "--out", str(tmp_path / "run"))
    assert done.code == 0, done.err
    assert trials_in(tmp_path / "run") == trials_in(FIXTURE)
    assert {t.grade for t in trials_in(FIXTURE)} == {Grade.PASS, Grade.FAIL}


def test_demo_ends_with_a_verdict_in_one_command(
    questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["eval", "run", "--demo", "--questions", str(questions)]
    done = run_here(*words, "--runs", "1", "--error-rate", "0")
    assert done.code == 0, done.err
    assert "VERDICT" in done.out and "a script stood in for the model" in done.out
    (folder,) = (tmp_path / "lessons-eval").iterdir()
    assert {t.grade for t in trials_in(folder) if t.arm is Arm.ON} == {Grade.PASS}
