from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lessons_loop.filter.errors import LessonsError, ModelError
from lessons_loop.filter.llm import HttpModel
from lessons_loop.filter.models import Lesson, Status
from lessons_loop.promote.cases import Case
from lessons_loop.promote.gate import Mode, Rules
from lessons_loop.promote.proof.prove_batch import Rehearsal, prove_batch
from lessons_loop.promote.proof.proving import ProofCase, ProofResult
from lessons_loop.promote.records import Action, Actor, Decision
from lessons_loop.promote.review.reviewers import ModelReviewer
from lessons_loop.promote.runs.drive import Review, RunOptions, run_gate
from lessons_loop.promote.runs.report import RunReport
from lessons_loop.promote.similar.judge import PairJudge, RememberingJudge
from support import proof_driver
from support.forked import exit_code
from support.gate import HashEmbedder, candidate, gate, promotion, settings, stage, unstage
from support.judging import OTHER, SOUND, sightings
from support.llm_server import LlmServer, http_error, says

EMBEDDER = HashEmbedder(256)
POOL = "The pool is 40."
REASON = "12 questions, 80 % before, 20 % after; broken: hours-4711"
PROMOTES = says("The excerpt shows the rows the advised query returned.\nVERDICT: PROMOTE")
REJECTS = says("The excerpt shows nothing of the kind advised here.\nVERDICT: REJECT")


class Prover:
    """Says what it is told to and keeps what it was asked."""

    def __init__(self, passed: bool, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.passed = passed
        self.meanwhile = meanwhile
        self.asked: list[ProofCase] = []

    def __call__(self, case: ProofCase) -> ProofResult:
        self.asked.append(case)
        self.meanwhile()
        return ProofResult(self.passed, REASON, {"broken": ["hours-4711"], "lift": -0.6})


def proven_run(
    root: Path, prover: Any, mode: Mode = Mode.AUTO, reviewer: Any = None, judge: Any = None
) -> RunReport:
    place = settings(root, EMBEDDER)
    options = RunOptions(mode, Rules(proving=True))
    proof = prove_batch(Rehearsal(place, options, reviewer, judge), prover)
    with gate(root, EMBEDDER) as session:
        return run_gate(session, replace(options, proof=proof), reviewer, judge=judge)


def texts(root: Path) -> dict[str, list[str]]:
    """Return what stands where, by status."""
    with gate(root, EMBEDDER) as session:
        found = {"curated": sorted(row.lesson.text for row in session.curated.values())}
        for row in session.archive.values():
            found.setdefault(row.status.value, []).append(row.lesson.text)
        found["staged"] = sorted({seen.lesson.text for seen in session.candidates()})
        assert session.ledger.verify() == []
    return {name: rows for name, rows in found.items() if rows}


def test_passed_batch_is_promoted_with_its_numbers(root: Path) -> None:
    stage(root, [*sightings(SOUND, 2), candidate(POOL, message="m-9")])
    prover = Prover(passed=True)
    report = proven_run(root, prover)
    assert texts(root) == {"curated": [SOUND], "rejected": [POOL]}
    assert report.proof == ProofResult(True, REASON, {"broken": ["hours-4711"], "lift": -0.6})
    with gate(root, EMBEDDER) as session:
        (line,) = [e for e in session.ledger.entries() if e.action is Action.PROMOTE]
        assert REASON in line.reason
        assert (session.ledger.payload(line) or {})["proof"]["lift"] == -0.6


def test_prover_sees_the_sets_before_and_after(root: Path) -> None:
    stage(root, sightings(SOUND, 2))
    proven_run(root, Prover(passed=True))
    stage(root, sightings(OTHER, 2))
    prover = Prover(passed=True)
    proven_run(root, prover)
    (asked,) = prover.asked
    assert [row.lesson.text for row in asked.before.lessons] == [SOUND]
    assert {row.lesson.text for row in asked.after.lessons} == {SOUND, OTHER}
    assert asked.new == (candidate(OTHER).lesson.key,)
    assert asked.state.is_dir() and len(asked.after.vectors) == 2


def test_refused_batch_is_held_as_a_whole(root: Path) -> None:
    seen = [*sightings(SOUND, 2), *sightings(OTHER, 2), candidate(POOL, message="m-9")]
    stage(root, seen)
    report = proven_run(root, Prover(passed=False))
    held = texts(root)
    assert sorted(held.pop("held")) == sorted([OTHER, SOUND])
    assert held == {"rejected": [POOL]}
    holds = [one.verdict for one in report.outcomes if one.verdict.decision is Decision.HOLD]
    assert {(one.rule, one.reason) for one in holds} == {("proof", REASON)}


def test_repetition_is_counted_although_batch_is_refused(root: Path) -> None:
    stage(root, sightings(SOUND, 2))
    proven_run(root, Prover(passed=True))
    stage(root, [candidate(SOUND, message="m-7", user="u-7", chat="c-7"), *sightings(OTHER, 2)])
    proven_run(root, Prover(passed=False))
    with gate(root, EMBEDDER) as session:
        (row,) = session.curated.values()
        assert (row.lesson.text, row.occurrences) == (SOUND, 3)


def test_nothing_new_asks_nobody(root: Path) -> None:
    stage(root, [candidate(POOL, message="m-9")])
    prover = Prover(passed=False)
    report = proven_run(root, prover)
    assert prover.asked == [] and report.proof is not None and report.proof.passed
    assert texts(root) == {"rejected": [POOL]}


@pytest.mark.parametrize("error", [ModelError("no answer"), LessonsError("too many unjudged")])
def test_failed_proof_leaves_everything(root: Path, error: LessonsError) -> None:
    def fails(case: ProofCase) -> ProofResult:
        raise error

    stage(root, [*sightings(SOUND, 2), candidate(POOL, message="m-9")])
    before = texts(root)
    with pytest.raises(type(error)):
        proven_run(root, fails)
    assert texts(root) == before == {"staged": sorted([POOL, SOUND])}


def test_candidate_that_came_meanwhile_waits(root: Path) -> None:
    stage(root, sightings(SOUND, 2))
    prover = Prover(True, lambda: stage(root, sightings(OTHER, 2)))
    proven_run(root, prover)
    assert texts(root) == {"curated": [SOUND], "staged": [OTHER]}


def test_fuller_wording_that_came_meanwhile_waits(root: Path) -> None:
    fuller = SOUND.replace(".", ", never by its name.")
    stage(root, sightings(SOUND, 2))
    proven_run(root, Prover(True, lambda: stage(root, sightings(fuller, 2))))
    assert texts(root) == {"curated": [SOUND], "staged": [fuller]}


def test_lesson_that_was_rewritten_meanwhile_waits(root: Path) -> None:
    seen = sightings(SOUND, 2)
    wider = {"trigger": "everything anybody asks"}
    rows = [one.model_copy(update={"lesson": one.lesson.model_copy(update=wider)}) for one in seen]

    def rewrites() -> None:
        unstage(root, [one.id for one in seen])
        stage(root, rows)

    stage(root, seen)
    proven_run(root, Prover(True, rewrites))
    assert texts(root) == {"staged": [SOUND]}


def test_curated_that_changed_meanwhile_ends_the_run(root: Path) -> None:
    def promotes() -> None:
        with gate(root, EMBEDDER) as session:
            session.apply(promotion(session, candidate(OTHER)))

    stage(root, sightings(SOUND, 2))
    with pytest.raises(LessonsError, match="run again"):
        proven_run(root, Prover(True, promotes))
    assert texts(root) == {"curated": [OTHER], "staged": [SOUND]}


def test_model_is_asked_once_for_both_runs(root: Path) -> None:
    stage(root, [*sightings(SOUND, 2), *sightings(OTHER, 2)])
    with LlmServer([PROMOTES, REJECTS]) as server:
        model = HttpModel(server.url, "reviewer", seconds=20, sleep=lambda _: None)
        proven_run(root, Prover(True), Mode.LLM, ModelReviewer(model), PairJudge(model))
        assert len(server.requests) == 2
    assert texts(root) == {"curated": [SOUND], "rejected": [OTHER]}


def test_outage_of_the_reviewer_is_no_decision(root: Path) -> None:
    stage(root, [*sightings(SOUND, 2), *sightings(OTHER, 2)])
    with LlmServer([PROMOTES, http_error(400)]) as server:
        model = HttpModel(server.url, "reviewer", seconds=20, sleep=lambda _: None)
        report = proven_run(root, Prover(True), Mode.LLM, ModelReviewer(model))
    assert report.counts()["not_reviewed"] == 1
    assert texts(root) == {"curated": [SOUND], "staged": [OTHER]}


class Person:
    """Edits, supersedes and stops as a person at a terminal may."""

    def __init__(self, edited: Lesson | None, replaces: str = "") -> None:
        self.edited = edited
        self.replaces = replaces
        self.asked = 0

    def review(self, case: Case, recase: Callable[[Lesson], Case]) -> Review:
        self.asked += 1
        near = case.verdict.neighbour
        old = near.curated if near and near.curated.key.startswith(self.replaces or "-") else None
        final = recase(self.edited) if self.edited else None
        actor = Actor(kind="human", name="alex")
        return Review(Decision.PROMOTE, "tried it", actor, self.edited, old, final)


def test_edited_wording_is_what_is_proven_and_promoted(root: Path) -> None:
    stage(root, sightings(SOUND, 2))
    edited = candidate(SOUND.replace("serials", "serial numbers")).lesson
    prover, person = Prover(True), Person(edited)
    proven_run(root, prover, Mode.HUMAN, person)
    assert (person.asked, prover.asked[0].new) == (1, (edited.key,))
    assert texts(root) == {"curated": [edited.text]}


@pytest.mark.parametrize("passed", [True, False])
def test_superseded_lesson_goes_only_with_a_passed_batch(root: Path, passed: bool) -> None:
    old, new = SOUND, SOUND.replace("by serial_key", "never by serial_key")
    with gate(root, EMBEDDER) as session:
        session.apply(promotion(session, candidate(old)))
        key = next(iter(session.curated))
    stage(root, sightings(new, 2))
    proven_run(root, Prover(passed), Mode.HUMAN, Person(None, key))
    found = texts(root)
    assert found["curated"] == [new if passed else old]
    assert found["superseded" if passed else "held"] == [old if passed else new]


def test_held_batch_needs_a_proof_or_a_person(root: Path) -> None:
    stage(root, sightings(SOUND, 2))
    proven_run(root, Prover(False))
    for n in (6, 7):
        stage(root, [candidate(SOUND, message=f"m-{n}", user="u-7", chat="c-7")])
        with gate(root, EMBEDDER) as session:
            run_gate(session, RunOptions(Mode.AUTO))
            (held,) = session.held()
        assert held.reason.count("did not pass") == 1 and REASON in held.reason
    assert texts(root) == {"held": [SOUND]}
    stage(root, [candidate(SOUND, message="m-8", user="u-8", chat="c-8")])
    prover = Prover(True)
    proven_run(root, prover)
    assert len(prover.asked) == 1 and texts(root)["curated"] == [SOUND]


def test_preview_says_what_the_proof_says(root: Path) -> None:
    stage(root, sightings(SOUND, 2))
    prover = Prover(False)
    report = proven_run(root, prover, Mode.NONE)
    assert report.proof and not report.proof.passed and prover.asked[0].new
    assert texts(root) == {"staged": [SOUND]}


def test_reviewer_prompt_holds_no_question(root: Path) -> None:
    stage(root, sightings(SOUND, 2))
    proven_run(root, Prover(False))
    stage(root, [candidate(SOUND, message="m-7", user="u-7", chat="c-7")])
    with LlmServer([PROMOTES]) as server:
        model = HttpModel(server.url, "reviewer", seconds=20, sleep=lambda _: None)
        proven_run(root, Prover(True), Mode.LLM, ModelReviewer(model))
        told = str([found.body for found in server.requests])
    assert "serial_key" in told and "hours-4711" not in told and REASON not in told


def test_archived_row_keeps_candidate_for_later(root: Path) -> None:
    stage(root, sightings(SOUND, 2))
    proven_run(root, Prover(False))
    with gate(root, EMBEDDER) as session:
        (row,) = session.held()
        assert row.status is Status.HELD and len(row.all_sightings) == 2
        assert row.reason == f"proof: {REASON}"


def test_pair_is_judged_once_for_both_runs() -> None:
    same = says("Both say to look serials up there.\nVERDICT: SAME")
    with LlmServer([same]) as server:
        judge = RememberingJudge(HttpModel(server.url, "m", seconds=20, sleep=lambda _: None))
        first, second = (candidate(text).lesson for text in (SOUND, OTHER))
        told = [judge.judge(first, second), judge.judge(first, second)]
        assert told[0] and told[0] == told[1] and len(server.requests) == 1


@pytest.mark.parametrize("step", ["proof", "payload", "ledger", "journal", "cleared"])
def test_killed_run_loses_and_promotes_nothing(root: Path, step: str) -> None:  # T-31
    stage(root, sightings(OTHER, 2))
    with gate(root, EMBEDDER):
        pass  # the domain is there: the run's first write is its own
    stage(root, sightings(SOUND, 2))
    assert exit_code(proof_driver.main, str(root), step) == 9
    found = texts(root)
    assert "curated" not in found
    assert sorted([*found.get("staged", []), *found.get("held", [])]) == sorted([OTHER, SOUND])
    if step == "proof":
        assert found == {"staged": sorted([OTHER, SOUND])}
