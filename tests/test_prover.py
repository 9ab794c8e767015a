from __future__ import annotations

import json
from pathlib import Path

import pytest

from lessons_loop.eval.proving.baseline_cache import keep_baseline, read_baseline
from lessons_loop.eval.proving.prover import BatchProver, facts_of, make_prover
from lessons_loop.eval.proving.prover_rules import (
    AFTER,
    BEFORE,
    Passes,
    broken,
    is_suspect,
    suspects,
)
from lessons_loop.eval.question_set import QuestionSet
from lessons_loop.eval.runs.history import read_history
from lessons_loop.eval.runs.runner import RunStopped
from lessons_loop.eval.runs.sets import gradable
from lessons_loop.eval.runs.setup import AgentSettings, JudgeSettings, NoAgent
from lessons_loop.eval.trials import Answer, Arm, Grade, Trial
from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.proof.proving import ProofResult
from support.evaluating_runs import question
from support.llm_server import LlmServer, http_error
from support.proving import (
    SECRET_QUESTION,
    SITES,
    asking,
    bad,
    case,
    following,
    good,
    lesson_set,
    question_files,
)


def prove(
    tmp_path: Path, server: LlmServer, before: list[str], after: list[str], **more: object
) -> ProofResult:
    """Prove a batch; names with a minus stand for a harmful lesson."""
    folder = question_files(tmp_path / "questions")
    sets = [
        lesson_set(*(bad(name[1:]) if name.startswith("-") else good(name) for name in names))
        for names in (before, after)
    ]
    return BatchProver(asking(server, folder, **more))(case(sets[0], sets[1], tmp_path / "state"))


def test_batch_that_helps_passes_with_its_numbers(tmp_path: Path) -> None:
    with following(0.1, unknown=["pumps", "trucks"]) as server:
        found = prove(tmp_path, server, ["valves"], ["valves", "pumps", "trucks"])
    assert found.passed and found.figures["verdict"] == "helps"
    assert found.figures["before"] == 0 and found.figures["after"] > 0.7
    assert found.figures["asked_twice"] == 12 and found.figures["broken"] == []
    assert found.reason.startswith("12 of 26 questions recall other lessons: 0% passed before")


def test_harmful_batch_is_refused_with_the_broken_ids(tmp_path: Path) -> None:
    with following(0.1) as server:
        found = prove(tmp_path, server, ["pumps"], ["pumps", "-pumps", "trucks"])
    assert not found.passed
    assert set(found.figures["broken"]) <= {f"pumps-{s}" for s in SITES}
    assert "pumps-north" in found.reason and len(found.figures["broken"]) >= 4


def test_one_broken_question_among_helped_ones_refuses(tmp_path: Path) -> None:
    with following(unknown=["pumps", "trucks", "valves"]) as server:
        batch = ["pumps", "trucks", "valves", "-motors"]
        found = prove(tmp_path, server, [], batch)
    assert found.figures["verdict"] == "helps" and not found.passed
    assert {name.split("-")[0] for name in found.figures["broken"]} == {"motors"}


def test_only_questions_with_other_lessons_are_asked_twice(tmp_path: Path) -> None:
    with following() as server:
        found = prove(tmp_path, server, ["pumps"], ["pumps", "trucks"], runs=2)
        asked = [str(one.body["messages"]) for one in server.requests]
    assert found.figures["asked_twice"] == 6
    assert len(asked) == 26 * 2 + 6 * 2
    assert sum("trucks" in text for text in asked) == 6 * 2 + 6 * 2


def test_nothing_recalled_is_said_and_asks_nobody(tmp_path: Path) -> None:
    with following() as server:
        found = prove(tmp_path, server, ["pumps"], ["pumps"])
        assert server.requests == []
    assert found.passed and "nothing could be measured" in found.reason


def test_baseline_is_taken_once(tmp_path: Path) -> None:
    with following() as server:
        prove(tmp_path, server, ["pumps"], ["pumps", "trucks"], runs=2)
        first = len(server.requests)
        found = prove(tmp_path, server, ["pumps"], ["pumps", "valves"], runs=2)
        assert len(server.requests) - first == found.figures["asked_twice"] * 2 < 26 * 2


@pytest.mark.parametrize("change", ["lessons", "runs", "seed"])
def test_another_key_is_another_baseline(tmp_path: Path, change: str) -> None:
    before = ["pumps", "valves"] if change == "lessons" else ["pumps"]
    more = {change: 3} if change != "lessons" else {}
    with following() as server:
        prove(tmp_path, server, ["pumps"], ["pumps", "trucks"], **({"runs": 2} | {}))
        first = len(server.requests)
        prove(tmp_path, server, before, [*before, "trucks"], **({"runs": 2} | more))
        runs = more.get("runs", 2)
        assert len(server.requests) - first == (26 + 6) * runs


@pytest.mark.parametrize("content", [b"", b"{}", b"nonsense", b'{"digest": "x", "trials": []}'])
def test_damaged_baseline_is_taken_anew(tmp_path: Path, content: bytes) -> None:
    with following() as server:
        prove(tmp_path, server, ["pumps"], ["pumps", "trucks"], runs=2)
        (kept,) = (tmp_path / "state" / "eval" / "baseline").iterdir()
        kept.write_bytes(content)
        first = len(server.requests)
        assert prove(tmp_path, server, ["pumps"], ["pumps", "trucks"], runs=2).passed
        assert len(server.requests) - first == (26 + 6) * 2
    assert json.loads(kept.read_text())["trials"]


def test_edited_grades_are_no_baseline(tmp_path: Path) -> None:
    folder = question_files(tmp_path / "questions")
    proven = case(lesson_set(), lesson_set(bad("motors")), tmp_path)
    with following() as server:
        BatchProver(asking(server, folder))(proven)
        (file,) = (tmp_path / "eval" / "baseline").iterdir()
        file.write_bytes(file.read_bytes().replace(b'"PASS"', b'"FAIL"'))
        assert not BatchProver(asking(server, folder))(proven).passed


def test_no_question_or_answer_is_kept(tmp_path: Path) -> None:
    with following(unknown=["pumps"]) as server:
        found = prove(tmp_path, server, [], ["pumps", "-trucks"], runs=2)
        assert SECRET_QUESTION in str(server.requests[0].body)
    kept = "".join(path.read_text() for path in (tmp_path / "state").rglob("*") if path.is_file())
    assert "pumps-north" in kept
    for text in (SECRET_QUESTION, "hauled on trucks", "do not know", "number 99"):
        assert text not in kept and text not in found.reason + json.dumps(found.figures)


def test_preview_keeps_nothing(tmp_path: Path) -> None:
    folder = question_files(tmp_path / "questions")
    sets = lesson_set(good("pumps")), lesson_set(good("pumps"), good("trucks"))
    with following() as server:
        BatchProver(asking(server, folder, runs=2))(case(*sets, tmp_path / "state", keep=False))
    assert not (tmp_path / "state").exists()


def test_proof_is_a_line_of_the_history(tmp_path: Path) -> None:
    with following(unknown=["trucks"]) as server:
        prove(tmp_path, server, ["pumps"], ["pumps", "trucks"], runs=2)
    (line,) = read_history(tmp_path / "state", "sql")
    assert (line.kind, line.lessons, line.model) == ("proof", 2, "some-model")


def test_outage_is_no_verdict(tmp_path: Path) -> None:
    with LlmServer([http_error(400)]) as server, pytest.raises(RunStopped):
        prove(tmp_path, server, ["pumps"], ["pumps", "trucks"])


def test_baseline_goes_on_after_an_outage(tmp_path: Path) -> None:
    with following() as server:
        prove(tmp_path, server, ["pumps"], ["pumps", "trucks"], runs=2)
        (kept,) = (tmp_path / "state" / "eval" / "baseline").iterdir()
        trials = read_baseline(tmp_path / "state", kept.stem)
        keep_baseline(tmp_path / "state", kept.stem, trials[:-5])
        first = len(server.requests)
        prove(tmp_path, server, ["pumps"], ["pumps", "trucks"], runs=2)
        assert len(server.requests) - first == 5 + 6 * 2


def test_prover_needs_an_agent_and_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoAgent, match="LESSONS_EVAL_URL"):
        make_prover("sql")
    monkeypatch.setenv("LESSONS_EVAL_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("LESSONS_EVAL_MODEL", "m")
    assert make_prover("sql")
    with pytest.raises(LessonsError, match="no folder of question files"):
        make_prover(str(tmp_path / "none"))


REMNANT = """
- {id: a, topic: t, question: "How many pumps?", checks: [{contains: "12"}]}
- {id: b, topic: t, question: "How many trucks?", checks: [{sql_result: SELECT 1}]}
"""


@pytest.mark.parametrize(("judge", "reference", "left"), [(0, 0, "c"), (1, 0, "cr"), (0, 1, "cs")])
def test_what_nobody_can_grade_is_not_asked(judge: int, reference: int, left: str) -> None:
    rubric = {"checks": (), "rubric": "is polite"}
    sql = {"checks": ({"sql_result": "SELECT 1"},)}
    rows = (question("c"), question("r").model_copy(update=rubric))
    rows += (question("s").model_copy(update=sql),)
    found = QuestionSet(domain="sql", questions=rows, digest="d" * 64)
    kept = gradable(found, judge=bool(judge), reference=bool(reference))
    assert "".join(one.id for one in kept.questions) == left and kept.digest == found.digest


def test_batch_is_not_proven_on_a_remnant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LESSONS_EVAL_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("LESSONS_EVAL_MODEL", "some-model")
    for name in ("LESSONS_EVAL_DATABASE", "LESSONS_LLM_URL", "LESSONS_LLM_MODEL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "q.yaml").write_text(REMNANT)
    with pytest.raises(LessonsError, match="LESSONS_EVAL_DATABASE"):
        make_prover(str(tmp_path))


def trials(name: str, before: str, after: str) -> list[Trial]:
    """Return trials of one question; + passed, - failed, 0 unjudged."""
    grades = {"+": Grade.PASS, "-": Grade.FAIL, "0": Grade.UNJUDGED}
    return [
        Trial(question=name, topic=name, arm=arm, run=n, answer=Answer(), grade=grades[mark])
        for arm, marks in ((BEFORE, before), (AFTER, after))
        for n, mark in enumerate(marks, 1)
    ]


@pytest.mark.parametrize(
    ("before", "after", "suspected"),
    [
        ("+++", "---", True),
        ("++-", "---", True),
        ("+--", "---", False),
        ("+++", "--+", False),
        ("+++", "-00", False),
        ("+00", "---", False),
        ("++0", "--0", True),
        ("++", "", False),
    ],
)
def test_suspects_passed_repeatedly_and_fail_repeatedly(
    before: str, after: str, suspected: bool
) -> None:
    assert suspects(trials("q", before, after)) == (("q",) if suspected else ())


@pytest.mark.parametrize(
    ("before", "after", "confirmed"),
    [
        ("+++++", "-----", True),
        ("+++--", "-----", True),
        ("++---", "-----", False),
        ("+++++", "---++", True),
        ("++++-", "---++", False),
        ("00000", "-----", True),
        ("+++00", "--000", True),
    ],
)
def test_suspects_are_broken_by_a_clear_gap(before: str, after: str, confirmed: bool) -> None:
    assert broken(trials("q", before, after), ["q"]) == (("q",) if confirmed else ())


@pytest.mark.parametrize(
    ("wrong", "most_false", "least_found"),
    [(0.1, 1e-5, 0.96), (0.2, 2e-4, 0.84), (0.3, 9e-4, 0.65)],
)
def test_rates_of_false_and_of_found_are_as_stated(
    wrong: float, most_false: float, least_found: float
) -> None:
    from scipy.stats import binom

    right = 1 - wrong
    chance = {n: [binom.pmf(k, n, right) for k in range(n + 1)] for n in (3, 5)}
    suspected = sum(
        chance[3][a] * chance[3][b]
        for a in range(4)
        for b in range(4)
        if is_suspect(Passes(a, 3), Passes(b, 3))
    )
    gap = [(a, b) for a in range(6) for b in range(6) if a / 5 - b / 5 >= 0.6 - 1e-9]
    assert suspected * sum(chance[5][a] * chance[5][b] for a, b in gap) <= most_false
    seen = sum(chance[3][a] for a in range(4) if is_suspect(Passes(a, 3), Passes(0, 3)))
    assert seen * sum(chance[5][a] for a, b in gap if b == 0) >= least_found


def test_arms_of_a_proof_are_two() -> None:
    assert {BEFORE, AFTER} == {Arm.OFF, Arm.ON}


def test_another_database_needs_another_baseline(tmp_path: Path) -> None:
    database = tmp_path / "reference.sqlite"
    database.write_bytes(b"one")
    asked = AgentSettings(url="http://127.0.0.1:9/v1", model="m", reference=database)
    before = facts_of(asked, JudgeSettings())
    assert facts_of(asked, JudgeSettings()) == before
    database.write_bytes(b"other")
    assert facts_of(asked, JudgeSettings()) != before
