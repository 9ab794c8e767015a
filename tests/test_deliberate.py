"""Commands of a person who decides: what they ask for, record and show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lessons_loop.filter.events import Usage
from support.commands import Done, run_here, told
from support.gate import WHEN, candidate, flags, stage, stage_usage
from support.judging import OTHER, SOUND, sightings
from support.llm_server import LlmServer, says

KEY = candidate(SOUND).lesson.key
OTHER_KEY = candidate(OTHER, kind="perf-guard").lesson.key
DECISIONS = ("promote", "reject", "hold", "demote", "revive")


@pytest.fixture
def place(root: Path, embedding: str) -> list[str]:
    """Options naming a store with SOUND seen by two users and OTHER by one."""
    stage(root, [*sightings(SOUND, 2), *sightings(OTHER, 1, kind="perf-guard")])
    return [*flags(root), "--embedding", embedding]


def listed(*words: str) -> list[dict[str, Any]]:
    done = run_here("candidates", "--json", *words)
    found = json.loads(done.out)
    return [*found["candidates"], *found["held"]]


def shown(key: str, place: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run_here("show", key, "--json", *place).out)
    return found


def decided(place: list[str], word: str, *more: str, key: str = KEY) -> Done:
    return run_here(word, key, "--reason", "because", *more, *place)


@pytest.mark.parametrize("word", DECISIONS)
@pytest.mark.parametrize("reason", [None, "", "  \t", "\u200b\u2060", "\u3164", "...", "x" * 1001])
def test_decision_without_a_reason_is_a_usage_error(
    tmp_path: Path, word: str, reason: str | None
) -> None:
    given = [] if reason is None else ["--reason", reason]
    done = run_here(word, "abcdef1", *given, "--store", str(tmp_path))
    assert done.code == 2 and "reason" in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize("name", [" ", "\u200b", "n" * 81])
def test_reviewer_without_a_name_is_a_usage_error(tmp_path: Path, name: str) -> None:
    words = ("reject", "abcdef1", "--reason", "r", "--reviewer", name)
    assert run_here(*words, "--store", str(tmp_path)).code == 2


def test_reviewer_and_reason_are_on_record(place: list[str]) -> None:
    secret = "sk-test-FAKE0123456789abcdefFAKE"
    words = ("--reason", f"ask\u202e first, not {secret}", "--reviewer", "Dana of plant 2")
    assert run_here("hold", KEY, *words, *place).code == 0
    last = shown(KEY, place)["decisions"][-1]
    assert (last["actor"], last["kind"], last["action"]) == ("Dana of plant 2", "human", "hold")
    assert "ask first" in last["reason"] and secret not in last["reason"] and last["run"]


@pytest.mark.parametrize("word", ["promote", "reject", "hold"])
def test_dry_run_of_a_decision_writes_nothing(place: list[str], word: str) -> None:
    before = listed(*place)
    done = decided(place, word, "--dry-run")
    assert done.code == 0 and f"would {word}" in done.out
    assert listed(*place) == before


def test_loop_of_a_person_over_one_lesson(place: list[str]) -> None:
    for word in ("hold", "promote", "demote", "revive", "reject", "revive"):
        done = decided(place, word)
        assert done.code == 0, (word, done.err)
    found = shown(KEY, place)
    assert found["status"] == "curated" and found["recalled"].startswith("yes")
    actions = [one["action"] for one in found["decisions"]]
    assert actions == ["hold", "promote", "demote", "revive", "retire", "revive"]
    assert found["earlier"]["rejected"] == 1 and len(found["snapshots"]) >= 1


@pytest.mark.parametrize(
    ("wish", "texts"),
    [
        ((), {SOUND, OTHER}),
        (("--kind", "perf-guard"), {OTHER}),
        (("--min-users", "2"), {SOUND}),
        (("--rule", "min-users"), {OTHER}),
        (("--status", "held"), set()),
        (("--text", "SERIALS machine"), {SOUND}),
        (("--producer", "practice"), {SOUND, OTHER}),
        (("--producer", "nobody"), set()),
        (("--sort", "users", "--limit", "1"), {SOUND}),
        (("--sort", "users", "--reverse", "--limit", "1"), {OTHER}),
        (("--sort", "sightings", "--limit", "1"), {SOUND}),
    ],
)
def test_list_shows_what_was_wished_for(
    place: list[str], wish: tuple[str, ...], texts: set[str]
) -> None:
    assert {row["text"] for row in listed(*place, *wish)} == texts


def test_list_tells_nearest_age_and_history(place: list[str], root: Path) -> None:
    decided(place, "promote")
    again = "Look serials up in equipment_machine by plant_key."
    stage(root, [candidate(again, message="n", user="n", chat="n")])
    decided(place, "reject", key=candidate(again).lesson.key)
    stage(root, [candidate(again, message="o", user="o", chat="o")])
    row = next(row for row in listed(*place, "--sort", "nearest") if row["text"] == again)
    assert row["nearest"]["key"] == KEY and row["nearest"]["similarity"] > 0.7
    assert row["age_days"] >= 0 and row["since"] == WHEN and row["producers"]
    assert (row["earlier"]["proposed"], row["earlier"]["rejected"]) == (2, 1)
    text = " ".join(run_here("candidates", *place).out.split())
    assert "proposed 2 times, rejected 1 (last by" in text and f"nearest {KEY[:12]}" in text


def test_no_command_shows_whose_chat_it_was(place: list[str], root: Path) -> None:
    seen = candidate(SOUND, message="MSG-REF", user="USER-REF", chat="CHAT-REF")
    stage(root, [seen])
    decided(place, "promote")
    usage = Usage(keys=(KEY,), message_ref="MSG-REF", user_ref="USER-REF", at=WHEN)
    stage_usage(root, "sql", [usage])
    run_here("promote", "--auto", *place)
    decided(place, "demote")
    for words in (("show", KEY), ("candidates",)):
        for form in ((), ("--json",)):
            out = run_here(*words, *form, *place).out
            assert out and not any(ref in out for ref in ("MSG-REF", "USER-REF", "CHAT-REF"))


def test_curated_lesson_is_shown_without_a_model(
    place: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LESSONS_QUIET", "1")
    decided(place, "promote")
    dead = [*place[:-1], "sentence-transformers:/nowhere/at-all"]
    done = run_here("show", KEY, *dead)
    assert (done.code, told(done.err)) == (0, "") and "status:    curated" in done.out
    assert "evidence:" in done.out and "recalled:" in done.out


def test_empty_run_loads_no_model(place: list[str]) -> None:
    decided(place, "promote")
    decided(place, "reject", key=OTHER_KEY)
    dead = [*place[:-1], "sentence-transformers:/nowhere/at-all"]
    done = run_here("promote", "--auto", *dead)
    assert done.code == 0 and "nothing to do" in done.out, done.err


def test_attended_run_says_when_somebody_is_needed(place: list[str]) -> None:
    assert run_here("promote", *place).code == 0  # a preview
    assert run_here("promote", "--auto", "--dry-run", *place).code == 0
    assert run_here("promote", "--auto", *place).code == 3  # OTHER has one user
    assert run_here("promote", "--auto", "--unattended", *place).code == 0
    decided(place, "reject", key=OTHER_KEY)
    assert run_here("promote", "--auto", *place).code == 0


@pytest.mark.parametrize("again", [SOUND, SOUND.replace("by serial_key", "by the serial_key only")])
def test_model_review_never_promotes_what_a_person_rejected(
    place: list[str], root: Path, again: str
) -> None:
    decided(place, "reject")
    stage(root, sightings(again, 3))
    yes = says("The excerpt shows it, all is well.\nVERDICT: PROMOTE")
    with LlmServer([yes]) as server:
        model = ("--llm-url", server.url, "--llm-model", "m", "--min-users", "1")
        run_here("promote", "--review", "llm", *model, *place)
    key = candidate(again).lesson.key
    assert shown(key, place)["status"] == "held"
    assert decided(place, "promote", key=key).code == 0  # a person may


def test_judge_does_not_clear_what_a_person_rejected(place: list[str], root: Path) -> None:
    decided(place, "promote", key=OTHER_KEY)
    decided(place, "reject")
    near = "Bound telemetry_hours by day_key; look serials up in equipment_machine by serial_key."
    stage(root, sightings(near, 3))
    broader = says("It says all of that and more besides.\nVERDICT: BROADER")
    with LlmServer([broader]) as server:
        model = ("--llm-url", server.url, "--llm-model", "m", "--min-users", "1")
        run_here("promote", "--review", "llm", *model, *place)
    assert shown(candidate(near).lesson.key, place)["status"] != "curated"


def test_show_tells_what_replaced_a_lesson(place: list[str], root: Path) -> None:
    decided(place, "promote")
    new = candidate("Look serials up in equipment_machine by plant_key.")
    stage(root, [new])
    decided(place, "promote", "--supersede", KEY, key=new.lesson.key)
    assert shown(KEY, place)["replaced_by"] == new.lesson.key
    assert shown(new.lesson.key, place)["supersedes"] == KEY
    assert f"by {new.lesson.key[:12]}" in run_here("show", KEY, *place).out
