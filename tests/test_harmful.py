from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path

import pytest

from lessons_loop.filter.models import Curated, Status
from lessons_loop.promote.clock import iso, utc_now
from lessons_loop.promote.decay.harmful import harm_of
from lessons_loop.promote.decide.decide import Wanted, decide
from lessons_loop.promote.exchange.file import Offered, exported
from lessons_loop.promote.exchange.intake import take_in
from lessons_loop.promote.exchange.lessons import take_over
from lessons_loop.promote.gate import Mode, Rules
from lessons_loop.promote.proof.lesson_proof import LessonProof
from lessons_loop.promote.records import Action, Actor, Change, Decision
from lessons_loop.promote.runs.drive import RunOptions, run_gate
from lessons_loop.promote.runs.report import RunReport
from lessons_loop.promote.session import GateSession, open_gate
from support.gate import HUMAN, WHEN, HashEmbedder, candidate, curated, gate, settings, stage
from support.judging import OTHER, SOUND, sightings

EMBEDDER = HashEmbedder(256)
SEED = Actor(kind="seed", name="sql")
EVAL = Actor(kind="rule", name="eval")


def proof(verdict: str = "harmful", at: str = "2099-01-01T00:00:00Z") -> LessonProof:
    return LessonProof(
        verdict=verdict,
        questions=12,
        runs=5,
        with_rate=0.25,
        without_rate=0.85,
        fixed=0,
        broken=8,
        p=0.008,
        low=-0.8,
        high=-0.4,
        model="some-model",
        question_set="0123456789ab",
        at=at,
    )


def prove(session: GateSession, key: str, found: LessonProof) -> None:
    row = session.curated[key].model_copy(update={"proof": found.model_dump_json()})
    session.apply(Change(Action.PROVE, key, "measured", EVAL, {}, put=(row,)))


def seeded(root: Path, *texts: str) -> list[str]:
    lessons = [candidate(text, source="seed:sql").lesson for text in texts]
    with gate(root, EMBEDDER) as session:
        take_in(session, [(one, f"id-{n}") for n, one in enumerate(lessons)], SEED)
    return [one.key for one in lessons]


def at(root: Path, hours: int) -> AbstractContextManager[GateSession]:
    """Open a gate whose clock is some hours ahead: records carry whole seconds."""
    return open_gate(settings(root, EMBEDDER), now=lambda: utc_now() + timedelta(hours=hours))


def run(root: Path, mode: Mode = Mode.RULES) -> RunReport:
    with gate(root, EMBEDDER) as session:
        return run_gate(session, RunOptions(mode))


def test_proof_changes_nothing_but_the_proof(root: Path) -> None:
    (key,) = seeded(root, SOUND)
    with gate(root, EMBEDDER) as session:
        before, vectors = session.curated[key], session.nearest_vectors()[1].copy()
        prove(session, key, proof("helps"))
    with gate(root, EMBEDDER) as session:
        after = session.curated[key]
        assert after == before.model_copy(update={"proof": after.proof, "rev": after.rev})
        assert LessonProof.of(after) == proof("helps")
        assert (session.nearest_vectors()[1] == vectors).all() and session.ledger.verify() == []


def test_harmful_seed_is_held_at_the_next_writing_run(root: Path) -> None:
    bad, good = seeded(root, SOUND, OTHER)
    with gate(root, EMBEDDER) as session:
        prove(session, bad, proof())
    report = run(root)
    assert [one.row.key for one in report.harmful] == [bad] and report.counts()["harmful"] == 1
    with gate(root, EMBEDDER) as session:
        assert set(session.curated) == {good}
        (row,) = session.held()
        assert row.curated is not None and row.curated.seed_id == "id-0"
        assert row.reason.startswith("proof-harmful: measured to do harm: 25% with it")
        assert session.ledger.verify() == []


def test_preview_shows_harm_and_writes_nothing(root: Path) -> None:
    (key,) = seeded(root, SOUND)
    with gate(root, EMBEDDER) as session:
        prove(session, key, proof())
    assert [one.row.key for one in run(root, Mode.NONE).harmful] == [key]
    with gate(root, EMBEDDER) as session:
        assert set(session.curated) == {key}


@pytest.mark.parametrize("verdict", ["helps", "neutral", "underpowered"])
def test_no_other_verdict_holds(root: Path, verdict: str) -> None:
    (key,) = seeded(root, SOUND)
    with gate(root, EMBEDDER) as session:
        prove(session, key, proof(verdict))
    assert run(root).harmful == ()
    with gate(root, EMBEDDER) as session:
        assert set(session.curated) == {key}


def test_revived_lesson_is_held_only_by_a_newer_proof(root: Path) -> None:
    (key,) = seeded(root, SOUND)
    with at(root, 1) as session:
        prove(session, key, proof(at=iso(session.now())))
    assert len(run(root).harmful) == 1
    with at(root, 2) as session:
        decide(session, [key], Wanted(Decision.REVIVE, "looked into it", HUMAN), Rules())
        assert session.curated[key].seed_id == "id-0"
    assert run(root).harmful == ()
    with gate(root, EMBEDDER) as session:
        prove(session, key, proof())
    assert len(run(root).harmful) == 1


def test_new_sightings_do_not_let_harm_in_again(root: Path) -> None:
    (key,) = seeded(root, SOUND)
    with gate(root, EMBEDDER) as session:
        prove(session, key, proof())
    run(root)
    for chance in range(2):  # the hold is renewed each time
        stage(root, sightings(SOUND, 3 + chance))
        (outcome,) = run(root, Mode.AUTO).outcomes
        assert (outcome.verdict.decision, outcome.verdict.rule) == (Decision.HOLD, "proof-harmful")


def test_seed_file_does_not_let_harm_in_again(root: Path) -> None:
    (key,) = seeded(root, SOUND)
    with gate(root, EMBEDDER) as session:
        prove(session, key, proof())
    run(root)
    seeded(root, SOUND)
    with gate(root, EMBEDDER) as session:
        assert key not in session.curated


def test_import_does_not_let_harm_in_again(root: Path) -> None:
    (key,) = seeded(root, SOUND)
    with gate(root, EMBEDDER) as session:
        prove(session, key, proof())
    run(root)
    with gate(root, EMBEDDER) as session:
        offered = Offered(1, candidate(SOUND, status=Status.CURATED).lesson)
        take_over(session, [offered], HUMAN, "back", False)
        assert key not in session.curated


def test_another_trigger_was_not_measured(root: Path) -> None:
    (key,) = seeded(root, SOUND)
    with gate(root, EMBEDDER) as session:
        prove(session, key, proof("helps"))
        other = candidate(SOUND, source="seed:sql", trigger="questions about pumps").lesson
        take_in(session, [(other, "id-0")], SEED)
        assert session.curated[key].lesson.trigger == "questions about pumps"
        assert session.curated[key].proof == ""


def test_export_leaves_the_proof_at_home() -> None:
    row = curated(candidate(SOUND).lesson, proof=proof().model_dump_json())
    assert "some-model" not in str(exported(row)) and "proof" not in exported(row)


FORGED = [
    proof().model_dump_json().replace(old, new)
    for old, new in (("-0.8", "-1e999"), (":12", ":1" + "0" * 400), ("0.008", "NaN"), (":8", ":-8"))
]


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"verdict": "harmful"}', *FORGED])
def test_unreadable_proof_is_none(text: str) -> None:
    row = curated(candidate(SOUND).lesson, proof=text)
    assert LessonProof.of(row) is None and harm_of(row) is None


@pytest.mark.parametrize(
    ("at", "harmful"), [("2026-10-31", False), (WHEN, False), ("2026-11-02", True)]
)
def test_proof_counts_from_when_the_lesson_came_in(at: str, harmful: bool) -> None:
    row: Curated = curated(candidate(SOUND).lesson, proof=proof(at=at).model_dump_json())
    assert (harm_of(row) is not None) is harmful
