from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lessons_loop.deploy.cli import app
from lessons_loop.filter.events import Rating, Usage
from lessons_loop.filter.models import Status
from lessons_loop.promote.clock import iso, utc_now
from lessons_loop.promote.decay.fold import fold_events
from lessons_loop.promote.decay.rules import DecayRules, State
from lessons_loop.promote.decay.run import DecayReport, demote_stale, records
from lessons_loop.promote.gate import Mode
from lessons_loop.promote.records import Action, Actor, Change
from lessons_loop.promote.runs.drive import RunOptions, run_gate
from lessons_loop.promote.runs.register import Span, run_line
from support.gate import HUMAN, candidate, flags, gate, promotion, shown, stage_events

BAD, GOOD = "Read telemetry without a bound.", "Bound every telemetry read."
RULES = DecayRules()


def with_thumbs(root: Path, source: str = "distill", actor: Actor = HUMAN) -> str:
    """Return the key of the lesson that got four thumbs down."""
    with gate(root) as session:
        for text, origin in ((BAD, source), (GOOD, "distill")):
            change = promotion(session, candidate(text, source=origin))
            session.apply(replace(change, actor=actor))
        bad, good = session.curated
    rate(root, bad, "down", 4)
    rate(root, good, "up", 5)
    return bad


def rate(root: Path, key: str, thumb: str, times: int, start: int = 0) -> None:
    events: list[Any] = []
    for n in range(start, start + times):
        now = iso(utc_now() + timedelta(seconds=2))
        mine = {"message_ref": f"{key}-{n}", "user_ref": f"user-{n}", "at": now}
        events += [Usage(keys=(key,), **mine), Rating(outcome=thumb, **mine)]
    stage_events(root, events)


def decayed(root: Path, mode: Mode = Mode.RULES, **fields: Any) -> DecayReport:
    with gate(root, **fields) as session:
        report = run_gate(session, RunOptions(mode, decay=RULES))
        assert report.decay is not None
        return report.decay


def test_failing_lesson_is_stale_with_its_numbers(root: Path) -> None:
    key = with_thumbs(root)
    assert [one.key for one in decayed(root).demoted] == [key]
    with gate(root) as session:
        assert key not in session.curated
        row = session.archive[f"{key}-stale"]
        assert row.curated is not None and (row.curated.hits, row.curated.failures) == (4, 4)
        assert "0 of 4 judged uses went well (0%), of other lessons' 100%" in row.reason
        entry = session.ledger.entries()[-1]
        assert (entry.action, entry.actor.name) == (Action.DEMOTE, "decay")
        assert (session.ledger.payload(entry) or {})["record"]["judged"] == 4
        assert session.ledger.verify() == []
    assert key not in shown(root).keys
    assert decayed(root) == DecayReport()


@pytest.mark.parametrize("source", ["seed:sql", "taught"])
def test_what_a_person_wrote_is_only_proposed(root: Path, source: str) -> None:
    key = with_thumbs(root, source)
    report = decayed(root)
    assert (report.demoted, [one.key for one in report.proposed]) == ((), [key])
    with gate(root) as session:
        assert key in session.curated


@pytest.mark.parametrize("kind", ["rule", "llm"])
def test_candidate_that_says_a_person_wrote_it_is_not_believed(root: Path, kind: Any) -> None:
    key = with_thumbs(root, "taught", Actor(kind=kind, name="all-rules"))
    report = decayed(root)
    assert ([one.key for one in report.demoted], report.proposed) == ([key], ())


@pytest.mark.parametrize(("mode", "dry"), [(Mode.NONE, True), (Mode.RULES, True)])
def test_preview_and_dry_run_take_nothing_out(root: Path, mode: Mode, dry: bool) -> None:
    key = with_thumbs(root)
    assert [one.key for one in decayed(root, mode, dry_run=dry).demoted] == [key]
    with gate(root) as session:
        assert key in session.curated and session.curated[key].hits == 0


def test_without_the_option_nothing_decays(root: Path) -> None:
    key = with_thumbs(root)
    with gate(root) as session:
        report = run_gate(session, RunOptions(Mode.RULES))
        assert report.decay is None and key in session.curated


def test_revived_lesson_starts_afresh(root: Path) -> None:
    key = with_thumbs(root)
    with gate(root) as session:
        fold_events(session)
        demote_stale(session, RULES, write=True)
        row = session.archive[f"{key}-stale"].curated
        assert row is not None
        payload: dict[str, object] = {"test": True}
        later = iso(utc_now() + timedelta(hours=1))
        back = row.model_copy(
            update={
                "lesson": row.lesson.model_copy(update={"status": Status.CURATED}),
                "since": later,
            }
        )
        vectors = session.embed([row.lesson.embedded_text])
        session.apply(
            Change(Action.REVIVE, key, "true again", HUMAN, payload, put=(back,), vectors=vectors)
        )
        assert demote_stale(session, RULES, write=True).demoted == ()
        (standing,) = [one for one in records(session) if one.key == key]
        assert (standing.state, standing.judged) == (State.UNTESTED, 0)


def test_run_line_names_whom_decay_took(root: Path) -> None:
    key = with_thumbs(root)
    with gate(root) as session:
        report = run_gate(session, RunOptions(Mode.AUTO, decay=RULES))
    line = run_line(report, "store", Span(utc_now(), utc_now()))
    assert (line.demoted, line.outcomes.demoted, line.outcomes.folded) == ((key,), 1, 18)


def test_records_tell_of_every_lesson(root: Path) -> None:
    key = with_thumbs(root)
    with gate(root) as session:
        assert {one.why for one in records(session)} == {"no judged use"}
        fold_events(session)
        told = {one.key: one for one in records(session)}
    assert (told[key].state, told[key].rate, told[key].base_rate) == (State.FAILING, 0.0, 1.0)


def test_command_shows_and_demotes(root: Path) -> None:
    key = with_thumbs(root)
    words = ["promote", *flags(root), "--demote-stale"]
    preview = CliRunner().invoke(app, words)
    assert preview.exit_code == 0 and f"would demote  {key[:12]}" in preview.stdout
    done = CliRunner().invoke(app, [*words, "--auto", "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert [one["key"] for one in report["decay"]["demoted"]] == [key]
    assert report["counts"]["demoted"] == 1
