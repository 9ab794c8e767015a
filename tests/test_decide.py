from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lessons_loop.filter.errors import InvalidLesson
from lessons_loop.filter.models import Status
from lessons_loop.promote.decide.decide import Wanted, decide
from lessons_loop.promote.gate import Mode, Rules
from lessons_loop.promote.records import Action, Actor, Change, Decision
from lessons_loop.promote.runs.drive import RunOptions, run_gate
from lessons_loop.promote.runs.report import Outcome, RunReport
from lessons_loop.promote.session import GateSession
from support.gate import HUMAN, HashEmbedder, candidate, gate, stage
from support.judging import OTHER, SOUND, sightings

EMBEDDER = HashEmbedder(256)
KEY = candidate(SOUND).lesson.key


def decided(
    root: Path, word: str, *keys: str, reason: str = "because", **more: Any
) -> list[Outcome]:
    """Decide on named lessons in a session of its own, as a command does."""
    with gate(root, EMBEDDER) as session:
        return decide(session, keys, Wanted(Decision(word), reason, HUMAN, **more), Rules())


def auto(root: Path) -> RunReport:
    with gate(root, EMBEDDER) as session:
        return run_gate(session, RunOptions(Mode.AUTO, Rules(min_users=1)))


def entries(session: GateSession) -> list[Action]:
    return [entry.action for entry in session.ledger.entries()]


@pytest.fixture
def promoted(root: Path) -> Path:
    """A store with SOUND curated."""
    stage(root, sightings(SOUND, 2))
    decided(root, "promote", KEY)
    return root


def test_held_by_a_person_stays_held_whoever_sees_it(root: Path) -> None:
    stage(root, sightings(SOUND, 1))
    decided(root, "hold", KEY, reason="ask the plant first")
    stage(root, [candidate(SOUND, message=f"m{n}", user=f"u{n}", chat=f"c{n}") for n in range(4)])
    for _ in range(2):  # the run's own hold does not take the person's place
        verdict = auto(root).outcomes[0].verdict
        assert (verdict.decision, verdict.rule) == (Decision.HOLD, "held-by-person")
        assert "ask the plant first" in verdict.reason
        stage(root, [candidate(SOUND, message="again", user="u9", chat="c9")])


def test_person_promotes_what_a_person_held(root: Path) -> None:
    stage(root, sightings(SOUND, 1))
    decided(root, "hold", KEY)
    decided(root, "promote", KEY)
    with gate(root, EMBEDDER) as session:
        assert list(session.curated) == [KEY] and not session.held()


@pytest.mark.parametrize("word", ["hold", "reject"])
def test_decision_made_already_changes_nothing(root: Path, word: str) -> None:
    stage(root, sightings(SOUND, 1))
    decided(root, word, KEY)
    with gate(root, EMBEDDER) as session:
        before = entries(session)
    again = decided(root, word, KEY)[0].verdict
    assert again.decision is Decision.SKIP and "already" in again.reason
    with gate(root, EMBEDDER) as session:
        assert entries(session) == before


def test_demoted_lesson_is_stale_with_its_counters(promoted: Path) -> None:
    decided(promoted, "demote", KEY[:8], reason="the table is gone")
    with gate(promoted, EMBEDDER) as session:
        row = session.archive[f"{KEY}-stale"]
        assert not session.curated and row.reason == "the table is gone"
        assert row.curated is not None and row.curated.occurrences == 2
        assert entries(session)[-1] is Action.DEMOTE and not session.ledger.verify()
    assert "already" in decided(promoted, "demote", KEY)[0].verdict.reason


def test_revived_lesson_goes_on_counting(promoted: Path) -> None:
    decided(promoted, "demote", KEY)
    decided(promoted, "revive", KEY, reason="the table is back")
    with gate(promoted, EMBEDDER) as session:
        assert session.curated[KEY].occurrences == 2
        assert entries(session)[-1] is Action.REVIVE and not session.ledger.verify()
    assert "curated already" in decided(promoted, "revive", KEY)[0].verdict.reason


@pytest.mark.parametrize("word", ["reject", "hold"])
def test_rejected_and_held_lessons_can_be_revived(root: Path, word: str) -> None:
    stage(root, sightings(SOUND, 2))
    decided(root, word, KEY)
    decided(root, "revive", KEY)
    with gate(root, EMBEDDER) as session:
        assert session.curated[KEY].occurrences and not session.held()


def test_revived_lesson_does_not_push_its_heir_aside(promoted: Path) -> None:
    new = candidate("Look serials up in equipment_machine by plant_key.")
    stage(promoted, [new])
    decided(promoted, "promote", new.lesson.key, supersede=KEY)
    with pytest.raises(InvalidLesson, match=f"--supersede {new.lesson.key[:12]} or --force"):
        decided(promoted, "revive", KEY)
    decided(promoted, "revive", KEY, supersede=new.lesson.key)
    with gate(promoted, EMBEDDER) as session:
        assert list(session.curated) == [KEY]
        assert session.archive[f"{new.lesson.key}-superseded"].status is Status.SUPERSEDED


def test_contradiction_is_promoted_knowingly_only(promoted: Path) -> None:
    new = candidate(SOUND.replace("Look", "Never look"))
    stage(promoted, [new])
    with pytest.raises(InvalidLesson, match=f"--supersede {KEY[:12]} or --force"):
        decided(promoted, "promote", new.lesson.key)
    decided(promoted, "promote", new.lesson.key, force=True)
    with gate(promoted, EMBEDDER) as session:
        assert set(session.curated) == {KEY, new.lesson.key}


def test_secret_is_never_revived(root: Path) -> None:
    bad = candidate("Use sk-test-FAKE0123456789abcdefFAKE for orders_api.")
    stage(root, [bad])
    decided(root, "reject", bad.lesson.key)
    with gate(root, EMBEDDER) as session:  # masked in the archive
        key = next(iter(session.archive.values())).lesson.key
    with pytest.raises(InvalidLesson, match="cannot be promoted"):
        decided(root, "revive", key, force=True)


def test_one_wrong_name_decides_nothing(promoted: Path) -> None:
    with pytest.raises(InvalidLesson, match="starts with ffffff"):
        decided(promoted, "demote", KEY, "ffffffff")
    with gate(promoted, EMBEDDER) as session:
        assert KEY in session.curated


@pytest.mark.parametrize(
    ("word", "told"), [("hold", "lessons demote"), ("promote", "curated already")]
)
def test_wrong_decision_on_a_curated_lesson_names_the_right_one(
    promoted: Path, word: str, told: str
) -> None:
    with pytest.raises(InvalidLesson, match=told):
        decided(promoted, word, KEY)


def test_stale_lesson_is_named_as_what_it_is(promoted: Path) -> None:
    decided(promoted, "demote", KEY)
    with pytest.raises(InvalidLesson, match=r"is stale: .*lessons revive"):
        decided(promoted, "promote", KEY)


def test_rejected_lesson_comes_back_with_its_chain(root: Path) -> None:
    for number in range(3):
        stage(root, [candidate(SOUND, message=f"m{number}", user=f"u{number}", chat=f"c{number}")])
        decided(root, "reject", KEY, reason=f"wrong {number}")
    stage(root, [candidate(SOUND, message="m8", user="u8", chat="c8")])
    verdict = auto(root).outcomes[0].verdict
    assert (verdict.decision, verdict.rule) == (Decision.HOLD, "seen-before")
    assert "proposed 4 times, rejected 3 (last by alex on " in verdict.reason
    assert verdict.reason.endswith(": wrong 2)")


NEAR = (
    "Always look serials up in equipment_machine by serial_key, then join it.",
    "Look serials up in equipment_machine by serial_key, never by name.",
)


@pytest.mark.parametrize("text", NEAR)
def test_near_wording_of_a_rejected_lesson_is_held(root: Path, text: str) -> None:
    stage(root, sightings(SOUND, 2))
    decided(root, "reject", KEY, reason="one site only")
    stage(root, [*sightings(text, 3), *sightings(OTHER, 3)])
    report = auto(root)
    found = {outcome.lesson.text: outcome.verdict for outcome in report.outcomes}
    assert found[text].decision is Decision.HOLD and "one site only" in found[text].reason
    assert found[OTHER].decision is Decision.PROMOTE


@pytest.mark.parametrize("text", [SOUND, NEAR[0]])
def test_ledger_alone_remembers_a_rejection(root: Path, text: str) -> None:
    stage(root, sightings(SOUND, 2))
    decided(root, "reject", KEY, reason="one site only")
    with gate(root, EMBEDDER) as session:  # nothing but the ledger tells of it
        purged = {"key": KEY}
        session.apply(
            Change(Action.PURGE, KEY, "old", HUMAN, purged, unarchive=(f"{KEY}-rejected",))
        )
        stage(root, sightings(text, 3))
        report = run_gate(session, RunOptions(Mode.AUTO, Rules(min_users=1)))
    verdict = report.outcomes[0].verdict
    assert verdict.decision is Decision.HOLD and "one site only" in verdict.reason


def test_fuller_wording_does_not_launder_a_rejected_one(root: Path) -> None:
    fuller = SOUND.removesuffix(".") + " and read its site_key too."
    stage(root, sightings(SOUND, 2))
    decided(root, "reject", KEY, reason="one site only")
    stage(root, [*sightings(SOUND, 2), *sightings(fuller, 2)])
    assert all(o.verdict.decision is Decision.HOLD for o in auto(root).outcomes)


def test_what_a_person_let_in_again_is_no_longer_refused(root: Path) -> None:
    stage(root, sightings(SOUND, 2))
    decided(root, "reject", KEY)
    decided(root, "revive", KEY)
    stage(root, sightings(NEAR[0], 2))
    verdict = auto(root).outcomes[0].verdict
    assert verdict.rule not in ("near-rejected", "seen-before")


def test_rejection_by_a_rule_does_not_reach_what_is_near(root: Path) -> None:
    with gate(root, EMBEDDER) as session:
        rule = Actor(kind="rule", name="quote-not-found")
        stage(root, sightings(SOUND, 1))
        decide(session, [KEY], Wanted(Decision.REJECT, "no quote", rule), Rules())
    stage(root, sightings(NEAR[0], 2))
    assert auto(root).outcomes[0].verdict.decision is Decision.PROMOTE
