from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lessons_loop.filter.llm import HttpModel
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.gate import Mode, Rules
from lessons_loop.promote.records import Action
from lessons_loop.promote.review.reviewers import HumanReviewer, ModelReviewer
from lessons_loop.promote.runs.drive import Reviewer, RunOptions, run_gate
from lessons_loop.promote.runs.report import RunReport
from lessons_loop.promote.similar.judge import PairJudge
from lessons_loop.promote.similar.judge_prompt import JUDGE_PROMPT_VERSION
from support.gate import HashEmbedder, candidate, gate, stage
from support.judging import sightings
from support.llm_server import LlmServer, Step, http_error, says

# under the test embedder NEW is related to OLD, and free enough for a model to settle it
OLD = "Look serials up by serial_key in table_a; a text match on raw ones finds wrong rows."
NEW = "A match on raw spellings finds wrong rows, so look for serials by serial_key in table_a."
EMBEDDER = HashEmbedder(256)
WHY = "Both look a serial up in one table by one column."
PROMOTE = says(f"{WHY}\nVERDICT: PROMOTE")
REJECT = says(f"{WHY}\nVERDICT: REJECT")


def judged(word: str) -> Step:
    return says(f"{WHY}\nVERDICT: {word}")


class Answers:
    """A judging model's and a reviewing model's servers."""

    def __init__(self, judging: Sequence[Step], reviewing: Sequence[Step]) -> None:
        self.judging, self.reviewing = LlmServer(list(judging)), LlmServer(list(reviewing))

    def run(self, root: Path, mode: Mode = Mode.LLM, reviewer: Reviewer | None = None) -> RunReport:
        with self.judging, self.reviewing, gate(root, EMBEDDER) as session:
            judge = PairJudge(HttpModel(self.judging.url, "j", seconds=20, sleep=lambda _: None))
            model = HttpModel(self.reviewing.url, "r", seconds=20, sleep=lambda _: None)
            chosen = reviewer or ModelReviewer(model)
            return run_gate(session, RunOptions(mode, Rules()), chosen, judge=judge)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A store with OLD curated and NEW staged by two users."""
    stage(StorePaths(tmp_path), sightings(OLD, 2))
    with gate(tmp_path, EMBEDDER) as session:
        run_gate(session, RunOptions(Mode.AUTO, Rules()))
    stage(StorePaths(tmp_path), sightings(NEW, 2))
    yield tmp_path


def counts(report: RunReport) -> dict[str, int]:
    return {name: count for name, count in report.counts().items() if count}


def last_line(root: Path) -> tuple[Action, str, str, str]:
    with gate(root, EMBEDDER) as session:
        entry = list(session.ledger.entries())[-1]
        return entry.action, entry.actor.kind, entry.actor.prompt, entry.reason


def test_without_judgement_related_is_held(root: Path) -> None:
    report = Answers([http_error(400)], [PROMOTE]).run(root)
    assert counts(report) == {"held": 1} and report.judged == {"undecided": 1}
    assert report.outcomes[0].verdict.rule == "related"


def test_same_is_counted_as_repeat_by_the_model(root: Path) -> None:
    report = Answers([judged("SAME")], [REJECT]).run(root)
    assert counts(report) == {"duplicates": 1}
    action, kind, prompt, reason = last_line(root)
    assert (action, kind, prompt) == (Action.DUPLICATE, "llm", JUDGE_PROMPT_VERSION)
    assert reason == f"j says same: {WHY}"


def test_contradiction_is_held_as_conflict_by_the_model(root: Path) -> None:
    report = Answers([judged("CONTRADICTS")], [PROMOTE]).run(root)
    assert counts(report) == {"held": 1} and report.outcomes[0].verdict.rule == "conflict"
    assert last_line(root)[:3] == (Action.HOLD, "llm", JUDGE_PROMPT_VERSION)


@pytest.mark.parametrize("word", ["UNRELATED", "BROADER"])
def test_cleared_lesson_goes_on_to_review(root: Path, word: str) -> None:
    answers = Answers([judged(word)], [PROMOTE])
    report = answers.run(root)
    assert counts(report) == {"promoted": 1} and len(answers.reviewing.requests) == 1
    with gate(root, EMBEDDER) as session:
        payload = session.ledger.payload(list(session.ledger.entries())[-1])
    assert payload is not None and payload["judged"]["word"] == word.lower()


def test_cleared_lesson_still_needs_two_users(root: Path) -> None:
    other = candidate(NEW.replace("rows", "lines"), message="m-9", user="u-9", chat="c-9")
    stage(StorePaths(root), [other])
    report = Answers([judged("UNRELATED")], [REJECT]).run(root)
    assert sorted(outcome.verdict.rule for outcome in report.outcomes) == ["min-users", "review"]


def test_judgement_is_told_where_the_words_keep_it_held(root: Path) -> None:
    text = NEW.replace("raw spellings", "raw_spelling")
    stage(StorePaths(root), sightings(text, 2))
    report = Answers([judged("SAME")], [REJECT]).run(root)
    kept = next(outcome for outcome in report.outcomes if outcome.lesson.text == text)
    assert kept.verdict.rule == "related" and kept.verdict.actor.kind == "rule"
    assert kept.verdict.reason.endswith(f"; j says same: {WHY}")


def test_dead_endpoint_ends_judging_with_an_error(root: Path) -> None:
    others = [NEW.replace("rows", word) for word in ("lines", "entries", "pages")]
    stage(StorePaths(root), [seen for text in others for seen in sightings(text, 2)])
    answers = Answers([http_error(400)], [PROMOTE])
    report = answers.run(root)
    assert counts(report) == {"held": 4} and len(answers.judging.requests) == 3
    assert "judging ended after 3 failures" in report.error


class Person:
    """A terminal at which somebody types the given lines."""

    def __init__(self, *lines: str) -> None:
        self.lines, self.said = list(lines), list[str]()

    def show(self, case: object) -> None:
        pass

    def say(self, text: str) -> None:
        self.said.append(text)

    def ask(self, question: str) -> str:
        self.said.append(question)
        return self.lines.pop(0)

    def edit(self, text: str) -> str | None:
        return None


def test_person_sees_judgement_and_decides(root: Path) -> None:
    person = Person("n", "too close")
    report = Answers([judged("SAME")], []).run(root, Mode.HUMAN, HumanReviewer(person, "alex"))
    assert counts(report) == {"rejected": 1}
    assert person.said[0] == f"judge:     j says same: {WHY}"


def test_person_may_retire_what_the_model_calls_narrower(root: Path) -> None:
    person = Person("y", "y", "says more")
    report = Answers([judged("BROADER")], []).run(root, Mode.HUMAN, HumanReviewer(person, "alex"))
    assert counts(report) == {"promoted": 1}
    assert any(line.startswith("retire the narrower lesson") for line in person.said)
    assert last_line(root)[:2] == (Action.SUPERSEDE, "human")


def test_preview_asks_no_model(root: Path) -> None:
    answers = Answers([judged("SAME")], [])
    report = answers.run(root, Mode.NONE)
    assert answers.judging.requests == [] and report.judged == {}
