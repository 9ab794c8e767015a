from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.models import Status
from lessons_loop.promote.forget.purge import PurgeReport, parse_age, purge_domain
from lessons_loop.promote.records import Action, Actor, Change
from lessons_loop.promote.session import GateSession
from support.gate import HUMAN, archived, candidate, gate, promotion, retirement, settings
from support.templates import copied

NOW = datetime(2026, 12, 24, tzinfo=UTC)
RULE = Actor(kind="rule", name="hidden")
STALE, WAITS, BY_RULE, BY_PERSON = "Use a.", "Use b.", "Use c.", "Use d."


def archive(session: GateSession, text: str, status: Status, actor: Actor) -> None:
    found = candidate(text).lesson
    action = Action.HOLD if status is Status.HELD else Action.REJECT
    row = archived(found, status)
    session.apply(Change(action, found.key, "r", actor, {"lesson": text}, archive=(row,)))


def make_filled(root: Path) -> None:
    with gate(root) as session:
        session.apply(promotion(session, candidate(STALE)))
        session.apply(retirement(session, candidate(STALE).lesson.key))
        archive(session, WAITS, Status.HELD, RULE)
        archive(session, BY_RULE, Status.REJECTED, RULE)
        archive(session, BY_PERSON, Status.REJECTED, HUMAN)


@pytest.fixture
def filled(root: Path) -> Path:
    copied(make_filled, root)
    return root


def purged(root: Path, days: int, *, dry_run: bool = False) -> PurgeReport:
    chosen = replace(settings(root), dry_run=dry_run)
    return purge_domain(chosen, timedelta(days=days), now=lambda: NOW)


def texts(root: Path) -> set[str]:
    with gate(root) as session:
        assert session.ledger.chain_problems() == []
        return {row.lesson.text for row in session.archive.values()}


def test_old_rows_go_what_still_decides_stays(filled: Path) -> None:
    report = purged(filled, 30)
    assert report == PurgeReport({"stale": 1, "rejected": 1}, 1, 1)
    assert texts(filled) == {WAITS, BY_PERSON}


def test_young_rows_stay(filled: Path) -> None:
    assert purged(filled, 90) == PurgeReport({}, 0, 0)
    assert texts(filled) == {STALE, WAITS, BY_RULE, BY_PERSON}


def test_dry_run_tells_and_leaves_all(filled: Path) -> None:
    assert purged(filled, 30, dry_run=True).removed == {"stale": 1, "rejected": 1}
    assert texts(filled) == {STALE, WAITS, BY_RULE, BY_PERSON}


def test_a_second_purge_writes_nothing(filled: Path) -> None:
    purged(filled, 30)
    with gate(filled) as session:
        lines = len(session.ledger.entries())
    assert purged(filled, 30).removed == {}
    with gate(filled) as session:
        assert len(session.ledger.entries()) == lines


@pytest.mark.parametrize(("text", "days"), [("30d", 30), ("2w", 14), ("6m", 180), ("1 Y", 365)])
def test_ages_are_read(text: str, days: int) -> None:
    assert parse_age(text) == timedelta(days=days)


@pytest.mark.parametrize("text", ["", "30", "0d", "-3d", "99999y", "soon"])
def test_other_ages_are_refused(text: str) -> None:
    with pytest.raises(LessonsError, match="--older-than must be an age such as 30d"):
        parse_age(text)
