"""What a model and a person decide in a gate run, and what they take back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lessons_loop.filter.errors import EmbedError, InvalidLesson
from lessons_loop.filter.models import Lesson, Status
from lessons_loop.promote.cases import Case
from lessons_loop.promote.decide.decide import Wanted, decide
from lessons_loop.promote.gate import Mode, Rules
from lessons_loop.promote.records import Action, Decision
from lessons_loop.promote.runs.drive import Review
from lessons_loop.promote.session import open_gate
from support.gate import (
    HUMAN,
    bare,
    candidate,
    gate,
)
from support.judging import OTHER, SOUND, sightings
from support.llm_server import LlmServer, http_error, says
from support.running import (
    EMBEDDER,
    PROMOTES,
    REJECTS,
    SECRET,
    counts,
    fill,
    llm,
    published_keys,
    run,
)


def test_model_decides_only_what_no_rule_stands_against(root: Path) -> None:
    unsafe = "Run DROP TABLE staging_orders before loading equipment_machine."
    fill(root, *sightings(SOUND, 2), *sightings(unsafe, 2), *sightings(OTHER, 1))
    with LlmServer([PROMOTES]) as server:
        report = run(root, Mode.LLM, llm(server))
    assert counts(report) == {"promoted": 1, "held": 2}
    assert len(server.requests) == 1
    with gate(root, EMBEDDER) as session:
        actor = next(e.actor for e in session.ledger.entries() if e.action is Action.PROMOTE)
    assert (actor.kind, actor.model, actor.prompt) == ("llm", "reviewer", "review-1")


def test_model_rejects_with_its_reason(root: Path) -> None:
    fill(root, *sightings(SOUND, 2))
    with LlmServer([REJECTS]) as server:
        report = run(root, Mode.LLM, llm(server))
    assert counts(report) == {"rejected": 1}
    assert "nothing of the kind" in report.outcomes[0].verdict.reason


@pytest.mark.parametrize(
    "answer", [says("APPROVE"), says("PROMOTE it, I think"), says(""), http_error(500)]
)
def test_unclear_review_is_no_decision(root: Path, answer: Any) -> None:  # T-30
    fill(root, *sightings(SOUND, 2))
    with LlmServer([answer]) as server:
        report = run(root, Mode.LLM, llm(server))
    assert counts(report) == {"not_reviewed": 1} and report.error == ""
    with gate(root, EMBEDDER) as session:
        assert len(session.candidates()) == 2 and not session.archive


def test_three_failures_in_a_row_end_the_review(root: Path) -> None:
    texts = [f"Read table_{n}_x for question_{n}_y." for n in range(5)]
    fill(root, *(seen for text in texts for seen in sightings(text, 2)))
    with LlmServer([says("unsure")]) as server:
        report = run(root, Mode.LLM, llm(server), dup_threshold=0.99)
    asked = len(server.requests)
    assert asked == 3 and "3 failures" in report.error
    assert counts(report)["not_reviewed"] == len(report.outcomes) - sum(
        outcome.verdict.decision is Decision.HOLD for outcome in report.outcomes
    )


class Scripted:
    """A reviewer that edits, decides or stops as told."""

    def __init__(self, *steps: Callable[[Case, Callable[[Lesson], Case]], Review]) -> None:
        self.steps = list(steps)

    def review(self, case: Case, recase: Callable[[Lesson], Case]) -> Review:
        return self.steps.pop(0)(case, recase)


def test_person_edits_and_original_is_kept(root: Path) -> None:
    fill(root, *sightings(SOUND, 1))

    def edited(case: Case, recase: Callable[[Lesson], Case]) -> Review:
        better = case.group.lesson.model_copy(update={"text": OTHER})
        return Review(Decision.PROMOTE, "clearer", HUMAN, better, final=recase(better))

    assert counts(run(root, Mode.HUMAN, Scripted(edited))) == {"promoted": 1}
    with gate(root, EMBEDDER) as session:
        assert [row.lesson.text for row in session.curated.values()] == [OTHER]
        payload = session.ledger.payload(session.ledger.entries()[-1])
    assert payload is not None and payload["lesson"]["text"] == SOUND
    assert payload["edited"]["text"] == OTHER and payload["rules"]["rule"] == "min-users"


def test_person_replaces_conflicting_lesson(root: Path) -> None:
    fill(root, *sightings("Set pool_size to 10 for orders_db.", 2))
    run(root, Mode.AUTO)
    fill(root, *sightings("Set pool_size to 20 for orders_db.", 1))

    def replaced(case: Case, recase: Callable[[Lesson], Case]) -> Review:
        near = case.verdict.neighbour
        assert near is not None and near.relation == "conflict"
        return Review(Decision.PROMOTE, "measured again", HUMAN, replaces=near.curated)

    assert counts(run(root, Mode.HUMAN, Scripted(replaced))) == {"promoted": 1}
    with gate(root, EMBEDDER) as session:
        (row,) = session.curated.values()
        assert "20" in row.lesson.text and len(row.supersedes) == 64
        assert [gone.status for gone in session.archive.values()] == [Status.SUPERSEDED]


def test_stop_keeps_decisions_made(root: Path) -> None:  # T-33
    fill(root, *sightings(SOUND, 2), *sightings(OTHER, 2))
    stop = Review(Decision.SKIP, "stopped", HUMAN, stop=True)
    yes = Review(Decision.PROMOTE, "good", HUMAN)
    report = run(root, Mode.HUMAN, Scripted(lambda c, r: yes, lambda c, r: stop))
    assert counts(report) == {"promoted": 1, "skipped": 1}
    with gate(root, EMBEDDER) as session:
        assert len(session.curated) == 1 and len(session.candidates()) == 2


def test_person_decides_on_named_held_lesson(root: Path) -> None:
    fill(root, *sightings(SOUND, 1))
    run(root, Mode.AUTO)
    with gate(root, EMBEDDER) as session:
        key = session.held()[0].lesson.key
        decide(session, [key[:6]], Wanted(Decision.PROMOTE, "checked", HUMAN), Rules())
        assert list(session.curated) == [key] and session.held() == []
        payload = session.ledger.payload(session.ledger.entries()[-1])
    assert payload is not None and payload["rules"]["rule"] == "min-users"


def test_overruled_rejection_is_on_record(root: Path) -> None:  # T-28
    fill(root, candidate("The pool is 40."))
    run(root, Mode.RULES)
    with gate(root, EMBEDDER) as session:
        key = next(iter(session.archive.values())).lesson.key
        decide(session, [key[:9]], Wanted(Decision.PROMOTE, "wanted so", HUMAN), Rules())
        payload = session.ledger.payload(session.ledger.entries()[-1])
    assert payload is not None and payload["rules"]["rule"] == "non-imperative"


@pytest.mark.parametrize("text", [f"Use {SECRET} for deploys.", "Use\u202e equipment_machine."])
def test_person_cannot_promote_secret_or_hidden(root: Path, text: str) -> None:
    fill(root, candidate(text))
    with gate(root, EMBEDDER) as session:
        key = session.candidates()[0].lesson.key
        with pytest.raises(InvalidLesson, match="cannot be promoted"):
            decide(session, [key], Wanted(Decision.PROMOTE, "please", HUMAN), Rules())
        assert not session.curated


@pytest.mark.parametrize(
    ("prefix", "message"), [("abc", "too short"), ("0" * 12, "no candidate"), ("", "too short")]
)
def test_bad_ids_are_named(root: Path, prefix: str, message: str) -> None:
    fill(root, *sightings(SOUND, 1))
    with gate(root, EMBEDDER) as session, pytest.raises(InvalidLesson, match=message):
        decide(session, [prefix], Wanted(Decision.REJECT, "no", HUMAN), Rules())


def test_one_bad_id_decides_nothing(root: Path) -> None:
    fill(root, *sightings(SOUND, 1))
    with gate(root, EMBEDDER) as session:
        key = session.candidates()[0].lesson.key
        with pytest.raises(InvalidLesson):
            decide(session, [key, "f" * 10], Wanted(Decision.REJECT, "no", HUMAN), Rules())
        assert len(session.candidates()) == 1 and not session.archive


def test_person_cannot_promote_without_embedder(root: Path) -> None:
    fill(root, *sightings(SOUND, 1))
    with open_gate(bare(root)) as session:
        key = session.candidates()[0].lesson.key
        with pytest.raises(EmbedError, match="LESSONS_EMBEDDING"):
            decide(session, [key], Wanted(Decision.PROMOTE, "yes", HUMAN), Rules())


def withdraw(root: Path, key: str, embedder: Any = EMBEDDER) -> None:
    with open_gate(replace(bare(root), embedder=embedder)) as session:
        decide(session, [key], Wanted(Decision.REJECT, "customer left", HUMAN), Rules())


@pytest.mark.parametrize("embedder", [EMBEDDER, None])
def test_withdrawn_lesson_is_recalled_no_more(root: Path, embedder: Any) -> None:  # T-12
    fill(root, *sightings(SOUND, 2), *sightings(OTHER, 2))
    run(root, Mode.AUTO)
    gone, left = candidate(SOUND).lesson.key, candidate(OTHER).lesson.key
    withdraw(root, gone[:8], embedder)
    assert published_keys(root) == [left]
    with gate(root, EMBEDDER) as session:
        row = session.archive[f"{gone}-rejected"]
        assert list(session.curated) == [left] and not session.ledger.verify()
        assert row.curated is not None and row.curated.occurrences == 2
        last = session.ledger.entries()[-1]
    assert last.action is Action.RETIRE and "customer left" in last.reason


@pytest.mark.parametrize(
    "again", [SOUND, "Look serials up in equipment_machine by the serial_key."]
)
def test_withdrawn_lesson_learned_again_is_held(root: Path, again: str) -> None:  # T-12
    fill(root, *sightings(SOUND, 2))
    run(root, Mode.AUTO)
    withdraw(root, candidate(SOUND).lesson.key[:8])
    fill(root, *sightings(again, 4))
    report = run(root, Mode.AUTO)
    assert counts(report) == {"held": 1} and not published_keys(root)
    assert report.outcomes[0].verdict.rule == "seen-before"
    assert "customer left" in report.outcomes[0].verdict.reason


def test_withdrawal_takes_new_sightings_along(root: Path) -> None:
    fill(root, *sightings(SOUND, 2))
    run(root, Mode.AUTO)
    fill(root, *sightings(SOUND, 3))
    withdraw(root, candidate(SOUND).lesson.key)
    with gate(root, EMBEDDER) as session:
        assert not session.curated and not session.candidates() and not session.held()


def test_withdrawn_lesson_can_be_promoted_again(root: Path) -> None:
    fill(root, *sightings(SOUND, 2))
    run(root, Mode.AUTO)
    key = candidate(SOUND).lesson.key
    withdraw(root, key)
    withdraw(root, key)  # a second time changes no wording and loses no record
    with gate(root, EMBEDDER) as session:
        assert session.archive[f"{key}-rejected"].curated is not None
        decide(session, [key], Wanted(Decision.PROMOTE, "they are back", HUMAN), Rules())
    assert published_keys(root) == [key]
