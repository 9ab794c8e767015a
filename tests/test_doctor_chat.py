"""What `lessons doctor` finds from facts: plugins, valves, models, the last run, the spool."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from lessons_loop.deploy.doctor.chat import (
    HostFacts,
    engine_findings,
    host_findings,
    valve_findings,
)
from lessons_loop.deploy.doctor.findings import Answer, Level
from lessons_loop.deploy.doctor.models import (
    Reply,
    embedding_findings,
    reply_finding,
    same_model_finding,
)
from lessons_loop.deploy.doctor.ratings import RatingFacts
from lessons_loop.deploy.doctor.store import run_finding, spool_finding
from lessons_loop.deploy.webui.plugin_file import RATING_ID, front_matter, plugin_source
from lessons_loop.filter.embed import fingerprint
from support.gate import HashEmbedder

MANIFEST = {"id": "lessons_filter", "meta": {"manifest": front_matter(plugin_source())}}
ON = {**MANIFEST, "is_active": True, "is_global": True}
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def host(**changes: object) -> HostFacts:
    facts: dict[str, object] = {"plugins": (ON,), "source": plugin_source()}
    return HostFacts("http://h", "0.12.4", **(facts | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (host(plugins=()), "not installed"),
        (host(plugins=(ON, ON | {"id": "b"})), "2 times"),
        (host(plugins=({**ON, "is_active": False},)), "switched off"),
        (host(source=plugin_source() + "#"), "changed by hand"),
        (host(source='"""\nversion: 0.0.9\n"""'), "this release has"),
        (HostFacts("http://h", "0.6.0"), "the plugin needs"),
        (host(refused="the token is not an admin's"), "not an admin's"),
    ],
)
def test_each_fault_of_the_plugin_is_a_problem(facts: HostFacts, told: str) -> None:
    problems = [one for one in host_findings(facts) if one.level is Level.PROBLEM]
    assert any(told in one.text for one in problems)


def test_switched_off_valves_have_a_remedy() -> None:
    off = {"top_k": 0, "distill_enabled": True, "distill_daily_cap": 0, "store": "/elsewhere"}
    findings = valve_findings(host(valves=off), "/here", ["sql"])
    assert all(one.remedy for one in findings if one.level is Level.WARNING)
    assert "top_k= " in findings[0].remedy and "--url" in findings[0].remedy


def test_sound_plugin_is_ok() -> None:
    assert {one.level for one in host_findings(host())} == {Level.OK}


RATING = front_matter(plugin_source(RATING_ID))
NOTES = {"id": "lessons_rating", "is_active": True, "meta": {"manifest": RATING}}


def rated(**changes: object) -> HostFacts:
    facts: dict[str, object] = {"plugins": (NOTES,), "source": plugin_source(RATING_ID)}
    return host(ratings=RatingFacts(**(facts | changes)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "level", "told"),
    [
        (rated(), Level.OK, "lessons_rating notes thumbs"),
        (rated(plugins=()), Level.WARNING, "not installed"),
        (rated(plugins=(NOTES, NOTES | {"id": "b"})), Level.WARNING, "2 times (b, lessons_rating)"),
        (rated(plugins=(NOTES | {"is_active": False},)), Level.WARNING, "switched off"),
        (rated(source=plugin_source(RATING_ID) + "#"), Level.PROBLEM, "changed by hand"),
        (rated(source="older"), Level.PROBLEM, "another source"),
        (rated(enabled=False), Level.WARNING, "valve enabled"),
        (rated(offered=False), Level.WARNING, "shows no thumbs"),
    ],
)
def test_state_of_the_rating_plugin_is_told(facts: HostFacts, level: Level, told: str) -> None:
    (finding,) = [one for one in host_findings(facts) if one.check == "ratings"]
    assert finding.level is level and told in finding.text
    assert bool(finding.remedy) is (level is not Level.OK)


@pytest.mark.parametrize(
    ("valves", "check", "level"),
    [
        ({}, "recall", Level.OK),
        ({"top_k": 0}, "recall", Level.WARNING),
        ({"recall_enabled": False}, "recall", Level.WARNING),
        ({"distill_enabled": True, "distill_daily_cap": 0}, "learning", Level.WARNING),
        ({"distill_enabled": True, "distill_model": "gone"}, "learning", Level.PROBLEM),
        ({"domains": "cooking"}, "domains", Level.WARNING),
        ({"store": "/elsewhere"}, "plugin's store", Level.WARNING),
    ],
)
def test_valves_are_read(valves: dict[str, object], check: str, level: Level) -> None:
    findings = valve_findings(host(valves=valves, models=("m",)), "/here", ["sql"])
    assert [one.level for one in findings if one.check == check] == [level]


def test_engine_of_the_host_is_compared() -> None:
    stored = {"sql": fingerprint(HashEmbedder(64, name="x:one"))}
    same, other = (fingerprint(HashEmbedder(size, name="y:two")) for size in (64, 32))
    cases = [
        (host(engine="y:two", engine_print=same), Level.OK),
        (host(engine="y:two", engine_print=other), Level.PROBLEM),
        (host(engine="x:one"), Level.OK),
        (host(engine="y:two"), Level.WARNING),
    ]
    for facts, level in cases:
        assert [one.level for one in engine_findings(facts, stored)] == [level]


def test_no_embedder_names_the_stores_model() -> None:
    stored = {"sql": fingerprint(HashEmbedder(name="openai:bge"))}
    (finding,) = embedding_findings(stored, Answer(None), "s")
    assert finding.level is Level.WARNING and "openai:bge" in finding.text
    for typed in ("export LESSONS_EMBEDDING=openai:MODEL@URL", "export LESSONS_EMBEDDING=minilm:"):
        assert re.search(rf"{typed}( |$)", finding.remedy)


@pytest.mark.parametrize(
    ("distill", "review", "level"),
    [
        (("", "qwen3:8b"), ("u", "Qwen3:8B"), Level.WARNING),
        (("", "vendor/qwen3:8b"), ("u", "qwen3:8b"), Level.WARNING),
        (("", "qwen3:8b"), ("u", "qwen3:14b"), Level.OK),
        (None, ("u", "m"), Level.NOT_CHECKED),
        (("", "m"), ("", ""), Level.NOT_CHECKED),
    ],
)
def test_one_model_judging_itself_is_told(distill, review, level: Level) -> None:
    assert same_model_finding(distill, review).level is level


@pytest.mark.parametrize(
    ("last", "level"),
    [
        ("2026-11-29T12:00:00Z sql-1", Level.OK),
        ("2026-11-20T12:00:00Z sql-1", Level.WARNING),
        ("", Level.WARNING),
    ],
)
def test_late_run_is_a_warning(last: str, level: Level) -> None:
    assert run_finding(last, NOW).level is level


def test_full_or_stuck_spool_is_told() -> None:
    assert spool_finding({"spool": 0, "spool_bad": 0}, 0, "s").level is Level.OK
    assert spool_finding({"spool": 3, "spool_bad": 0}, 0.1, "s").level is Level.OK
    assert spool_finding({"spool": 3, "spool_bad": 0}, 5, "s").level is Level.WARNING
    stuck = spool_finding({"spool": 3, "spool_bad": 0, "spool_held": True}, 5, "s")
    assert stuck.level is Level.WARNING and "a worker holds spool.lock" in stuck.text
    assert spool_finding({"spool": 0, "spool_bad": 2}, 0, "s").level is Level.WARNING
    assert spool_finding({"spool": 10_000, "spool_bad": 0}, 0, "s").level is Level.PROBLEM


def test_late_answer_is_not_checked() -> None:
    late = Answer(error="took longer than 20 s", late=True)
    assert reply_finding("review model", "m", late, "").level is Level.NOT_CHECKED
    assert reply_finding("review model", "m", Answer(Reply(0.1)), "").level is Level.OK
