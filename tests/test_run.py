from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lessons_loop.filter.errors import EmbedError, InvalidLesson
from lessons_loop.filter.events import Usage
from lessons_loop.filter.llm import HttpModel
from lessons_loop.filter.models import Lesson, Status
from lessons_loop.promote.cases import Case
from lessons_loop.promote.decide.decide import Wanted, decide
from lessons_loop.promote.gate import Mode, Rules
from lessons_loop.promote.records import Action, Decision
from lessons_loop.promote.review.reviewers import ModelReviewer
from lessons_loop.promote.runs.drive import Review, RunOptions, run_gate
from lessons_loop.promote.runs.report import RunReport
from lessons_loop.promote.session import open_gate
from lessons_loop.promote.snapshot.kept import list_snapshots, read_snapshot
from support.gate import (
    HUMAN,
    HashEmbedder,
    bare,
    candidate,
    gate,
    on_folder,
    server_url,
    settings,
    shown,
    stage,
    stage_usage,
)
from support.judging import OTHER, SOUND, sightings
from support.llm_server import LlmServer, http_error, says

SECRET = "sk-test-FAKE0123456789abcdefFAKE"
PROMOTES = says("The excerpt shows the rows the advised query returned.\nVERDICT: PROMOTE")
REJECTS = says("The excerpt shows nothing of the kind advised here.\nVERDICT: REJECT")
EMBEDDER = HashEmbedder(256)


def fill(root: Path, *seen: Any) -> None:
    stage(root, [found for found in seen])


def run(root: Path, mode: Mode, reviewer: Any = None, **rules: Any) -> RunReport:
    with gate(root, EMBEDDER) as session:
        return run_gate(session, RunOptions(mode, Rules(**rules)), reviewer)


def counts(report: RunReport) -> dict[str, int]:
    return {name: count for name, count in report.counts().items() if count}


def llm(server: LlmServer) -> ModelReviewer:
    return ModelReviewer(HttpModel(server.url, "reviewer", seconds=5, sleep=lambda _: None))


def tree(root: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(root.rglob("*")) if file.is_file()}


def test_auto_promotes_what_two_users_showed(root: Path) -> None:
    fill(root, *sightings(SOUND, 2))
    assert counts(run(root, Mode.AUTO)) == {"promoted": 1}
    with gate(root, EMBEDDER) as session:
        (row,) = session.curated.values()
        assert (row.occurrences, row.distinct_users) == (2, 2)
        assert session.candidates() == [] and session.ledger.verify() == []


def test_curated_row_names_no_chat_or_user(root: Path) -> None:  # T-48
    fill(root, *sightings(SOUND, 2))
    run(root, Mode.AUTO)
    with gate(root, EMBEDDER) as session:
        (row,) = session.curated.values()
        shown = row.model_dump_json()
    assert "user-0" not in shown and "chat-" not in shown and "3 rows" not in shown


def test_preview_writes_nothing_and_promotes_nothing(root: Path) -> None:
    fill(root, *sightings(SOUND, 2), candidate("The pool is 40.", message="m-9"))
    report = run(root, Mode.NONE)
    assert counts(report) == {"skipped": 1, "rejected": 1}
    with gate(root, EMBEDDER) as session:
        assert len(session.candidates()) == 3 and not session.curated and not session.archive


def test_rules_alone_never_promote(root: Path) -> None:
    fill(root, *sightings(SOUND, 2), candidate("The pool is 40.", message="m-9"))
    assert counts(run(root, Mode.RULES)) == {"skipped": 1, "rejected": 1}
    with gate(root, EMBEDDER) as session:
        assert [row.status for row in session.archive.values()] == [Status.REJECTED]
        assert len(session.candidates()) == 2 and not session.curated


def test_nothing_to_do_is_an_empty_report(root: Path) -> None:
    assert counts(run(root, Mode.RULES)) == {}


def test_held_lesson_is_counted_with_later_sighting(root: Path) -> None:
    first, second, third = sightings(SOUND, 3)
    fill(root, first)
    assert counts(run(root, Mode.AUTO, min_users=3)) == {"held": 1}
    fill(root, second)
    assert counts(run(root, Mode.AUTO, min_users=3)) == {"held": 1}
    assert counts(run(root, Mode.AUTO, min_users=3)) == {}
    fill(root, third)
    assert counts(run(root, Mode.AUTO, min_users=3)) == {"promoted": 1}
    with gate(root, EMBEDDER) as session:
        assert session.held() == []
        assert next(iter(session.curated.values())).distinct_users == 3


def test_reworded_sightings_count_together(root: Path) -> None:
    shorter = "Look serials up in equipment_machine."
    full = "Look serials up in equipment_machine; raw ones are spelled in many ways."
    fill(root, *sightings(full, 1), candidate(shorter, message="m-8", user="u-8", chat="c-8"))
    assert counts(run(root, Mode.AUTO, dup_threshold=0.6)) == {"promoted": 1}
    with gate(root, EMBEDDER) as session:
        assert [row.lesson.text for row in session.curated.values()] == [full]


def test_added_advice_needs_users_of_its_own(root: Path) -> None:
    shorter = "Look serials up in equipment_machine."
    full = "Look serials up in equipment_machine; read serial_key."
    fill(root, *sightings(full, 1), candidate(shorter, message="m-8", user="u-8", chat="c-8"))
    report = run(root, Mode.AUTO, dup_threshold=0.6)
    assert counts(report) == {"held": 1} and report.outcomes[0].case.group.users == 2
    assert "2 showed a part of it" in report.outcomes[0].verdict.reason
    fill(root, candidate(full, message="m-9", user="u-9", chat="c-9"))
    assert counts(run(root, Mode.AUTO, dup_threshold=0.6)) == {"promoted": 1}


def test_one_lesson_under_two_triggers_is_one(root: Path) -> None:
    shorter = "Look serials up in equipment_machine."
    full = "Look serials up quickly in equipment_machine."
    other = "monthly reports which the sales team asks for every week"
    seen = candidate(shorter, trigger=other, message="m-8", user="u-8", chat="c-8")
    fill(root, *sightings(full, 1), seen)
    assert counts(run(root, Mode.AUTO, dup_threshold=0.85)) == {"promoted": 1}


def test_held_wording_is_closed_by_fuller_one(root: Path) -> None:
    fill(root, candidate("Look serials up in equipment_machine.", message="m-8"))
    assert counts(run(root, Mode.AUTO)) == {"held": 1}
    fuller = "Look serials up quickly in equipment_machine."
    fill(root, candidate(fuller, message="m-9", user="u-9", chat="c-9"))
    assert counts(run(root, Mode.AUTO, dup_threshold=0.6)) == {"promoted": 1}
    with gate(root, EMBEDDER) as session:
        assert session.held() == []
        assert "merged into" in [row.reason for row in session.archive.values()][-1]


def test_duplicate_is_folded_into_curated(root: Path) -> None:
    fill(root, *sightings(SOUND, 2))
    run(root, Mode.AUTO)
    fill(root, candidate(SOUND.upper()[0] + SOUND[1:], message="m-5", user="u-5", chat="c-5"))
    assert counts(run(root, Mode.AUTO)) == {"duplicates": 1}
    with gate(root, EMBEDDER) as session:
        (row,) = session.curated.values()
        assert row.occurrences == 3 and session.candidates() == []
        entry = session.ledger.entries()[-1]
        assert entry.action is Action.DUPLICATE
        payload = session.ledger.payload(entry)
        assert payload is not None and payload["candidates"][0]["lesson"]["text"] == SOUND


def test_contradiction_is_held_never_dropped(root: Path) -> None:  # T-29
    fill(root, *sightings("Divide Stripe amounts by 100 for JPY orders.", 2))
    run(root, Mode.AUTO)
    fill(root, *sightings("Do not divide Stripe amounts by 100 for JPY orders.", 3))
    report = run(root, Mode.AUTO)
    assert counts(report) == {"held": 1}
    assert report.outcomes[0].verdict.rule == "conflict"
    with gate(root, EMBEDDER) as session:
        assert "Do not divide" in session.held()[0].lesson.text


def test_promotion_is_neighbour_of_the_next_candidate(root: Path) -> None:
    fill(
        root,
        *sightings("Set pool_size to 10 for orders_db.", 2),
        *sightings("Set pool_size to 20 for orders_db.", 2),
    )
    assert counts(run(root, Mode.AUTO)) == {"promoted": 1, "held": 1}


def test_rejected_lesson_comes_back_held_with_history(root: Path) -> None:
    fill(root, *sightings(SOUND, 1))
    with gate(root, EMBEDDER) as session:
        key = session.candidates()[0].lesson.key
        decide(session, [key[:8]], Wanted(Decision.REJECT, "one site only", HUMAN), Rules())
    fill(root, *(seen for seen in sightings(SOUND, 4)[1:]))
    report = run(root, Mode.AUTO)
    assert counts(report) == {"held": 1}
    assert report.outcomes[0].verdict.rule == "seen-before"
    assert "one site only" in report.outcomes[0].case.history[0]["reason"]


def test_rejected_secret_is_masked_everywhere(root: Path) -> None:  # T-46
    fill(root, candidate(f"Use {SECRET} for deploys of orders_api.", trigger=f"on {SECRET}"))
    report = run(root, Mode.RULES)
    assert counts(report) == {"rejected": 1}
    assert SECRET not in json.dumps(report.as_dict())
    # Chroma's index files carry leftovers of the process's memory; they are private instead
    left = {
        name: raw
        for name, raw in tree(root).items()
        if "/staging/" not in name and not name.endswith(".bin")
    }
    if not server_url(root):
        assert (root / "gate").stat().st_mode & 0o077 == 0
    assert not [name for name, raw in left.items() if SECRET.encode() in raw]


def test_usage_events_are_folded_first(root: Path) -> None:
    fill(root, *sightings(SOUND, 2))
    run(root, Mode.AUTO)
    key = candidate(SOUND).lesson.key
    usage = Usage(keys=(key,), message_ref="m-1", user_ref="u", at="2026-11-02T08:00:00Z")
    stage_usage(root, "sql", [usage])
    assert counts(run(root, Mode.RULES)) == {"folded": 1}


def test_dry_run_judges_alike_and_changes_no_byte(root: Path) -> None:  # T-32
    fill(root, *sightings(SOUND, 2), *sightings(OTHER, 2), candidate("The pool is 40."))
    with gate(root, EMBEDDER):
        pass
    before = tree(root)
    with gate(root, EMBEDDER, dry_run=True) as session:
        dry = run_gate(session, RunOptions(Mode.AUTO))
    assert tree(root) == before
    assert counts(dry) == counts(run(root, Mode.AUTO)) == {"promoted": 2, "rejected": 1}


def test_without_embedder_candidates_stay(root: Path) -> None:
    fill(root, *sightings(SOUND, 2))
    with open_gate(bare(root)) as session:
        report = run_gate(session, RunOptions(Mode.AUTO))
        assert counts(report) == {"skipped": 1} and len(session.candidates()) == 2


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


def published_keys(root: Path) -> list[str]:
    found = shown(root)
    assert found is not None
    return [row.key for row in found.lessons]


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


@on_folder
def test_what_arrives_after_the_snapshot_waits_for_the_next_run(root: Path) -> None:
    stage(root, sightings(SOUND, 2))
    late = [sightings(OTHER, 2, kind="perf-guard")]

    def arrive(name: str) -> None:
        if name == "payload" and late:
            stage(root, late.pop())

    used = Usage(keys=("k",), message_ref="m", user_ref="u", at="2026-11-02T08:00:00Z")
    stage_usage(root, "sql", [used])
    with gate(root):
        pass
    with open_gate(settings(root), checkpoint=arrive) as session:
        run_gate(session, RunOptions(Mode.AUTO))
        saved = read_snapshot(list_snapshots(session.state, "sql")[-1]).candidates
        assert not late and {row.lesson.text for row in session.curated.values()} == {SOUND}
        assert {found.lesson.text for found in saved} == {SOUND}
