from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from lessons_loop.eval.judgements.distill_command import distilling_lines
from lessons_loop.eval.judgements.distilling import (
    ASK_TRIES,
    Distilled,
    distill_exchange,
    leaks,
    missing_facts,
    parse_exchange,
    score_distilling,
)
from lessons_loop.eval.showing import print_figures
from lessons_loop.filter.errors import ModelError
from lessons_loop.filter.llm import ChatReply
from support.commands import told
from support.commands_here import eval_here
from support.evaluating import answers, load_rows, replay_all, run_eval, write_rows
from support.exchanges import assistant, lesson, reply, tool, user
from support.llm_server import LlmServer, hangs, http_error, says

WORKED = [
    user("orders with HPOS?"),
    *tool("run_sql", '[{"n": 41}]', sql="SELECT count(*) FROM wp_wc_orders WHERE hpos = 1"),
    assistant("41"),
    user("matches the admin, thanks"),
]
GOOD = reply(
    lesson("Count orders in wp_wc_orders when HPOS is on.", [2, 3, 5], "FROM wp_wc_orders")
)
KEYS = {"false_emits", "missed_emits", "facts_covered", "forbidden_leaks", "unreadable", "dropped"}


def row(wanted: int = 1, messages: Any = None, **label: Any) -> dict[str, Any]:
    found = {"should_emit": wanted, "kind": None, "key_facts": [], "forbidden": []} | label
    return {"id": "E1", "messages": messages or WORKED, "label": found, "category": "tool_success"}


def distilled(text: str, **label: Any) -> Distilled:
    return asyncio.run(distill_exchange(parse_exchange(row(**label)), answers(text), "m"))


def scored(text: str, **label: Any) -> dict[str, Any]:
    return score_distilling([distilled(text, **label)])


def test_right_lesson_scores_full() -> None:
    found = scored(GOOD, key_facts=["hpos", "wc_orders|wp_posts"], forbidden=["41"])
    assert found["missed_emits"] == 0.0
    assert found["facts_covered"] == 1.0
    assert found["false_emits"] is None
    assert found["forbidden_leaks"] == 0
    assert found["mistakes"] == []


def test_lesson_where_none_belongs_is_false() -> None:
    found = scored(GOOD, wanted=0)
    assert (found["false_emits"], found["n_false_emits"]) == (1.0, 1)
    assert found["mistakes"] == [{"id": "E1", "false_emit": True}]


def test_facts_of_missed_lessons_count_as_missing() -> None:
    found = scored("NOTHING", key_facts=["a", "b"])
    assert (found["missed_emits"], found["facts_covered"]) == (1.0, 0.0)
    assert found["mistakes"][0]["missed_emit"] == "nothing"


@pytest.mark.parametrize(
    ("forbidden", "leaked"),
    [
        (["wp_wc"], 1),
        (["WP_WC_ORDERS"], 1),
        (["9"], 0),
        (["90"], 1),
        (["0"], 0),
        (["run_sql"], 0),
    ],
)
def test_forbidden_numbers_are_whole_numbers(forbidden: list[str], leaked: int) -> None:
    text = reply(lesson("Count wp_wc_orders, not 90 %.", [2, 3, 5], "FROM wp_wc_orders"))
    messages = [user("90 % of orders with HPOS?"), *WORKED[1:]]
    assert len(leaks(distilled(text, messages=messages, forbidden=forbidden))) == leaked


def test_trigger_and_tags_may_leak_too() -> None:
    told = lesson("Count wp_wc_orders.", [2, 3], "FROM wp_wc_orders", trigger="hpos", tags=["sql"])
    found = distilled(reply(told), forbidden=["hpos", "sql"])
    assert leaks(found) == ("hpos", "sql")


def test_evidence_is_counted_apart() -> None:
    found = scored(GOOD, forbidden=["41"])
    assert (found["forbidden_leaks"], found["forbidden_in_evidence"]) == (0, 1)


def test_alternatives_of_a_fact_are_one_fact() -> None:
    assert missing_facts(distilled(GOOD, key_facts=["nowhere|HPOS", "nowhere"])) == ("nowhere",)


def test_dropped_lessons_are_counted_by_rule() -> None:
    bad = lesson("Count orders in wp_posts_all.", [2, 3], "FROM wp_wc_orders")
    assert scored(reply(bad, bad))["dropped"] == {"invented": 2}


@pytest.mark.parametrize(
    ("text", "key"), [("I learned much.", "unreadable"), ('{"lessons": [{"te', "unreadable")]
)
def test_unreadable_replies_are_counted(text: str, key: str) -> None:
    assert scored(text)[key] == 1


def test_no_model_is_asked_about_small_talk() -> None:
    async def ask(messages: list[dict[str, str]]) -> ChatReply:
        raise AssertionError("asked")

    exchange = parse_exchange(row(0, [user("hi"), assistant("Hello!")]))
    found = score_distilling([asyncio.run(distill_exchange(exchange, ask, "m"))])
    assert found["skipped"] == {"no-evidence": 1}
    assert found["false_emits"] == 0.0


def test_unanswered_exchange_is_no_verdict() -> None:
    tries: list[int] = []

    async def ask(messages: list[dict[str, str]]) -> ChatReply:
        tries.append(1)
        raise ModelError("model m is away")

    done = [asyncio.run(distill_exchange(parse_exchange(row()), ask, "m"))]
    found = score_distilling(done)
    assert len(tries) == ASK_TRIES
    assert (found["n_not_answered"], found["missed_emits"]) == (1, None)


# The command
def test_command_prints_the_figures_as_json(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "e.jsonl", [row(key_facts=["HPOS"]), row(0) | {"id": "E2"}])
    with LlmServer([says(GOOD)]) as server:
        done = run_eval(
            "distill", "--exchanges", str(path), "--llm-url", server.url, "--llm-model", "m",
            "--json",
        )  # fmt: skip
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert set(found) >= KEYS
    assert (found["false_emits"], found["missed_emits"], found["facts_covered"]) == (1.0, 0.0, 1.0)
    assert told(done.stderr) == ""


def test_command_sends_the_key_and_never_prints_it(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "e.jsonl", [row()])
    key = "sk-fake-0123456789abcdef"
    with LlmServer([says(GOOD)]) as server:
        done = eval_here(
            "distill", "--exchanges", str(path), LESSONS_LLM_API_KEY=key,
            LESSONS_LLM_URL=server.url, LESSONS_LLM_MODEL="m",
        )  # fmt: skip
        sent = server.requests[0].headers["Authorization"]
    assert sent == f"Bearer {key}"
    assert key not in done.stdout + done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("step", [http_error(500, "broken"), hangs(30)], ids=["broken", "frozen"])
def test_outage_ends_in_one_line(tmp_path: Path, step: Any) -> None:
    path = write_rows(tmp_path / "e.jsonl", [row() | {"id": f"E{n}"} for n in range(9)])
    with LlmServer([step]) as server:
        done = eval_here(
            "distill", "--exchanges", str(path), "--llm-url", server.url, "--llm-model", "m",
            "--llm-timeout", "1",
        )  # fmt: skip
        assert len(server.requests) < 9 * ASK_TRIES
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "without an answer" in done.stderr


def test_single_failure_is_told_behind_the_figures(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "e.jsonl", [row()])
    with LlmServer([http_error(500, "broken")]) as server:
        done = eval_here(
            "distill", "--exchanges", str(path), "--llm-url", server.url, "--llm-model", "m",
            "--json",
        )  # fmt: skip
    assert done.returncode == 1
    assert json.loads(done.stdout)["n_not_answered"] == 1
    assert "1 of 1 exchanges were not answered" in done.stderr


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("{}", "line 1"),
        ('{"id": 1, "messages": [], "label": {"should_emit": true}}', "should_emit"),
        ('{"id": 1, "messages": [], "label": {"should_emit": 1, "key_facts": "a"}}', "key_facts"),
        ("", "no record"),
        ("no json", "line 1"),
    ],
)
def test_bad_file_is_named(tmp_path: Path, text: str, wanted: str) -> None:
    path = tmp_path / "e.jsonl"
    path.write_text(text, "utf-8")
    done = eval_here(
        "distill", "--exchanges", str(path), "--llm-url", "http://127.0.0.1:9", "--llm-model", "m"
    )
    assert done.returncode == 1
    assert wanted in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_model_is_required() -> None:
    done = eval_here("distill", "--exchanges", "e.jsonl")
    assert done.returncode == 2
    assert "--llm-url" in done.stderr


def test_table_fits_eighty_columns(capsys: pytest.CaptureFixture[str]) -> None:
    long = parse_exchange(row(key_facts=["a" * 60, "b\x1b[2J" * 9]) | {"category": "c" * 60})
    done = [asyncio.run(distill_exchange(long, answers(GOOD), "m"))]
    print_figures(score_distilling(done), False, distilling_lines)
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown


# The hold-out: other topics than the development set, replies written before its rules were seen.
HOLDOUT = ("holdout", "holdout_late")
BLIND = ("blind_a", "blind_b", "blind_c", "blind_d")
"""Written later, a before and b to d after rules were last tuned; since then all are tuned on."""


def figures(of: str, names: Sequence[str] = HOLDOUT) -> Mapping[str, Any]:
    rows = [one for name in names for one in load_rows(f"distill/{name}.jsonl")]
    exchanges = [parse_exchange(one) for one in rows]
    replies = {one["id"]: one["replies"][of] for one in rows}
    return score_distilling(asyncio.run(replay_all(exchanges, replies)))


def test_holdout_with_good_replies() -> None:
    found = figures("good")
    assert found["mistakes"] == []
    assert found["forbidden_leaks"] == 0
    assert found["facts_covered"] >= 0.9


def test_holdout_with_weak_replies() -> None:
    found = figures("weak")
    assert found["forbidden_leaks"] == 0
    assert found["false_emits"] <= 0.05


def test_blind_sets_with_good_replies() -> None:
    found = figures("good", BLIND)
    assert found["mistakes"] == []
    assert found["n_facts"] == 139
    assert found["facts_covered"] == 1.0
    assert found["forbidden_leaks"] == 0


def test_blind_sets_with_weak_replies() -> None:
    found = figures("weak", BLIND)
    assert found["forbidden_leaks"] == 0
    assert found["n_false_emits"] <= 1


def test_no_field_lets_what_the_exchange_forbids_through() -> None:
    """Each good lesson of the hold-out with a number, address or secret of its chat put in."""
    leaked = []
    for one in load_rows("distill/holdout.jsonl"):
        exchange = parse_exchange(one)
        if one["replies"]["good"] == "NOTHING":
            continue
        sound = json.loads(one["replies"]["good"])["lessons"][0]
        told = " ".join(turn.text for turn in exchange.turns)
        for bad in exchange.forbidden:
            if bad not in told or not re.search(r"[\d@]", bad):
                continue
            for changed in (
                {"text": f"{sound['text'][:300]} {bad} applies."},
                {"trigger": f"{sound['trigger'][:100]} {bad}"},
                {"tags": [bad]},
            ):
                found = asyncio.run(
                    distill_exchange(exchange, answers(reply(sound | changed)), "m")
                )
                leaked += [(exchange.id, bad) for bad in leaks(found)]
    assert leaked == []
