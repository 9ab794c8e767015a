from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lessons_loop.filter.distill import Outcome, build_messages, distill, skip_reason
from lessons_loop.filter.errors import LessonsError, ModelError, UnreadableReply
from lessons_loop.filter.llm import ChatReply, HttpModel
from lessons_loop.filter.models import Candidate
from lessons_loop.filter.prompt import EXAMPLE_LESSONS, PROMPT_VERSION
from lessons_loop.filter.transcript import read_transcript
from support.distilling import (
    ORIGIN,
    Replay,
    emitted_text,
    leaked,
    load_lines,
    missing_facts,
    read,
    replay,
)
from support.exchanges import assistant, lesson, reply, tool, turns, user
from support.llm_server import LlmServer, http_error, says

CALL = tool("run_sql", '[{"n": 41}]', sql="SELECT count(*) FROM wp_wc_orders WHERE hpos = 1")
WORKED = (user("orders with HPOS?"), *CALL, assistant("41"), user("matches the admin, thanks"))
GOOD = lesson("Count orders in wp_wc_orders when HPOS is on.", [2, 3, 5], "FROM wp_wc_orders")
LONG = "The orders of this shop are counted in one table. " * 5


def skip(*messages: dict[str, Any], finish: str | None = "stop", least: int = 200) -> str | None:
    return skip_reason(turns(*messages), finish_reason=finish, min_reply_chars=least)


# T-23 and the cheap checks
@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([user("hi"), assistant("Hello! How can I help?")], "no-evidence"),
        ([user("What is your name?"), assistant(LONG)], "no-evidence"),
        ([user("run: echo hello"), *tool("shell", "hello", cmd="echo hello"), assistant(LONG)],
         "no-evidence"),
        ([user("q"), *tool("run_sql", "Error: locked", sql="a"), assistant(LONG)], "no-evidence"),
        ([user("q"), *tool("t", "database is locked", a=1), *tool("t", "5 rows", a=1),
          assistant(LONG)], "transient"),
        ([user("q"), *CALL, assistant(LONG), user("no, that is wrong")], "rejected"),
        ([user("q"), *CALL, assistant("short")], "short"),
        ([user("q"), *CALL, assistant(LONG)], None),
        ([user("q"), *CALL, assistant("short"), user("perfect, thanks")], None),
        ([user("q"), *tool("t", "Error: no", a=1), *tool("t", "5 rows", a=2), assistant("5")],
         None),
        ([user("api?"), assistant("v1"), user("No - use v2, v1 is gone"), assistant("ok, v2"),
          user("exactly, works")], None),
        ([user("api?"), assistant("v1"), user("No - use v2, v1 is gone"), assistant("ok, v2")],
         "rejected"),
        ([user("q"), *CALL, assistant(LONG), user("tell me a joke"), assistant(LONG)],
         "no-evidence"),
        ([user("q"), assistant("")], "no-answer"),
        ([], "no-answer"),
    ],
)  # fmt: skip
def test_cheap_checks(messages: list[dict[str, Any]], reason: str | None) -> None:
    assert skip(*messages) == reason


@pytest.mark.parametrize(
    ("finish", "reason"),
    [(None, "broken-answer"), ("", "broken-answer"), ("length", "unfinished"),
     ("tool_calls", "unfinished"), ("stop", None), ("end_turn", None)],
)  # fmt: skip
def test_only_finished_answers_count(finish: str | None, reason: str | None) -> None:
    assert skip(*WORKED, finish=finish) == reason


def test_chinese_reply_is_not_short() -> None:  # T-27
    answer = assistant("请先运行数据库迁移再部署脚本否则会失败所以每次都要先检查迁移状态" * 2)
    assert skip(user("为什么失败?"), *tool("t", "ok then", a="b"), answer) is None


def test_candidate_carries_its_origin() -> None:  # T-24
    (found,) = read(turns(*WORKED), reply(GOOD)).candidates
    assert found.lesson.domain == ORIGIN.domain
    assert found.prompt == PROMPT_VERSION
    assert (found.message_ref, found.chat_ref, found.user_ref, found.at, found.model) == (
        ORIGIN.message_ref,
        ORIGIN.chat_ref,
        ORIGIN.user_ref,
        ORIGIN.at,
        ORIGIN.model,
    )
    assert Candidate.from_record(found.to_record()) == found


def test_one_bad_lesson_costs_no_good_one() -> None:  # T-21
    bad = lesson("Count orders in wp_posts_all.", [2, 3], "FROM wp_wc_orders")
    outcome = read(turns(*WORKED), json.dumps({"lessons": [bad, None, GOOD, GOOD]}))
    assert outcome.counts == {
        "dropped:invented": 1,
        "dropped:shape": 1,
        "dropped:repeated": 1,
        "emitted": 1,
    }


def test_surplus_lessons_are_counted() -> None:
    texts = ["Count orders in wp_wc_orders.", "Read wp_wc_orders for HPOS.", "Use wp_wc_orders."]
    lessons = [lesson(text, [2, 3], "FROM wp_wc_orders") for text in texts]
    outcome = read(turns(*WORKED), reply(*lessons), max_lessons=2)
    assert outcome.counts == {"emitted": 2, "dropped:over-limit": 1}


# T-16, T-18, T-19: nothing, unreadable and cut off are counted apart
@pytest.mark.parametrize(
    ("text", "finish", "counts"),
    [
        ("NOTHING", "stop", {"nothing": 1}),
        ('{"lessons": []}', "stop", {"nothing": 1}),
        ("I learned a lot.", "stop", {"unreadable": 1}),
        ("I learned", "length", {"cut-off": 1}),
        (reply(GOOD), "length", {"cut-off": 1, "emitted": 1}),
        (reply(GOOD, GOOD)[:-40], "length", {"cut-off": 1, "emitted": 1}),
        (reply(GOOD), "stop", {"emitted": 1}),
    ],
)
def test_replies_are_counted_apart(text: str, finish: str, counts: dict[str, int]) -> None:
    outcome = read(turns(*WORKED), text, finish)
    assert outcome.counts == counts
    assert bool(outcome.warning) == bool({"unreadable", "cut-off"} & set(counts))


def test_own_lesson_is_not_learned_again() -> None:  # T-13
    outcome = read(turns(*WORKED), reply(GOOD), injected=[str(GOOD["text"])])
    assert outcome.counts == {"dropped:recalled": 1}


@pytest.mark.parametrize("example", EXAMPLE_LESSONS)
def test_template_never_comes_back(example: str) -> None:  # T-20
    echo = lesson(example, [2, 3], "FROM wp_wc_orders")
    assert read(turns(*WORKED), reply(echo)).counts == {"dropped:template-echo": 1}


def test_secret_is_neither_sent_nor_stored() -> None:  # T-46
    key = "sk-test-FAKE0123456789abcdefFAKE"
    messages = (
        user(f"deploy with {key}"),
        *tool("deploy", "rolled out v7", key=key),
        user("works"),
    )
    sent = build_messages(turns(*messages), max_lessons=3, injected=())
    assert key not in str(sent)
    told = lesson(f"Use {key} for deploys.", [1, 2, 3], f"deploy with {key}")
    kept = lesson("Use deploy for v7.", [1, 2, 3], "deploy with [secret: api key]")
    outcome = read(turns(*messages), reply(told, kept))
    assert key not in repr(outcome)
    assert outcome.counts["dropped:sensitive"] == 1


def test_prompt_has_no_system_text() -> None:  # T-13
    messages = ({"role": "system", "content": "Lesson: lint first."}, *WORKED)
    sent = build_messages(turns(*messages), max_lessons=3, injected=())
    assert "lint" not in sent[1]["content"]
    assert [message["role"] for message in sent] == ["system", "user"]


def test_evidence_keeps_its_language() -> None:  # T-27
    messages = (
        user("我们的部署脚本为什么失败了?"),
        *tool("deploy", "Error: migration pending", step="deploy"),
        *tool("deploy", "迁移完成,部署成功,共三步", step="migrate, deploy"),
        assistant("因为没有先运行数据库迁移。"),
        user("对的,成功了"),
    )
    told = lesson("先运行数据库迁移(migrate)再部署。", [3, 4, 5], "迁移完成,部署成功")
    (found,) = read(turns(*messages), reply(told)).candidates
    assert found.evidence.quote.startswith("迁移完成,部署成功")


@given(st.text(), st.sampled_from(["stop", "length", ""]))
def test_any_reply_gives_an_outcome(text: str, finish: str) -> None:
    assert read(turns(*WORKED), text, finish).candidates == ()


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["text", "kind", "trigger", "tags", "lines", "quote"]), inner
            )
        ),
    )
)
def test_any_lessons_value_gives_an_outcome(value: Any) -> None:
    outcome = read(turns(*WORKED), json.dumps({"lessons": value}))
    assert isinstance(outcome, Outcome)


def distilled(answer: ChatReply | LessonsError) -> Outcome:
    async def ask(messages: list[dict[str, str]]) -> ChatReply:
        if isinstance(answer, LessonsError):
            raise answer
        return answer

    return asyncio.run(distill(turns(*WORKED), ORIGIN, ask, max_lessons=3, injected=()))


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (ModelError("model m did not answer"), {"endpoint-failed": 1}),
        (UnreadableReply("the reply has no choices"), {"unreadable": 1}),
        (UnreadableReply("empty reply, finish_reason length: more"), {"cut-off": 1}),
    ],
)
def test_failed_model_is_counted(error: ModelError, counts: dict[str, int]) -> None:
    outcome = distilled(error)
    assert outcome.counts == counts
    assert outcome.warning == str(error)


def test_distilling_over_http() -> None:
    with LlmServer([says(reply(GOOD)), http_error(500, "broken")]) as server:
        model = HttpModel(server.url, "m", "", 10.0)

        async def ask(messages: list[dict[str, str]]) -> ChatReply:
            return await asyncio.to_thread(model.ask, messages)

        async def twice() -> list[Outcome]:
            one = await distill(turns(*WORKED), ORIGIN, ask, max_lessons=3, injected=())
            other = await distill(turns(*WORKED), ORIGIN, ask, max_lessons=3, injected=())
            return [one, other]

        first, second = asyncio.run(twice())
        assert "[2] CALL run_sql" in server.requests[0].body["messages"][1]["content"]
    assert first.counts == {"emitted": 1}
    assert second.counts == {"endpoint-failed": 1}
    assert "HTTP 500" in second.warning


# Recorded replies to the development exchanges: what a good and what a weak model answers.
@pytest.mark.parametrize("name", ["replies_good.jsonl", "replies_good_distill-1.jsonl"])
def test_good_replies_keep_the_facts(name: str) -> None:
    replays = replay(name)
    worth = [one for one in replays if one.exchange["label"]["should_emit"]]
    facts = sum(len(one.exchange["label"]["key_facts"]) for one in worth)
    missing = [fact for one in worth for fact in missing_facts(one)]
    assert len(missing) <= facts * 0.1, missing


@pytest.mark.parametrize("unskipped", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "replies_good.jsonl",
        "replies_weak.jsonl",
        "replies_good_distill-1.jsonl",
        "replies_weak_distill-1.jsonl",
    ],
)
def test_nothing_false_or_forbidden_is_emitted(name: str, unskipped: bool) -> None:
    replays = replay(name, unskipped=unskipped)
    assert {one.exchange["id"]: leaks for one in replays if (leaks := leaked(one))} == {}
    empty = [one for one in replays if not one.exchange["label"]["should_emit"]]
    assert [emitted_text(one.outcome) for one in empty] == [""] * len(empty)


@pytest.mark.parametrize("exchange", load_lines("exchanges.jsonl"), ids=lambda one: one["id"])
def test_no_field_lets_forbidden_text_through(exchange: dict[str, Any]) -> None:
    """A good lesson, or else any proven one, with a forbidden string put into each field."""
    talk = read_transcript(exchange["messages"])
    replies = {row["id"]: row["reply"] for row in load_lines("replies_good.jsonl")}
    answer = replies[exchange["id"]]
    proof = [place + 1 for place, turn in enumerate(talk) if turn.role in ("call", "result")]
    sound = lesson("Do this in SQL for every question.", proof, "")
    if answer != "NOTHING":
        sound = json.loads(answer)["lessons"][0]
    for bad in exchange["label"]["forbidden"]:
        for changed in (
            {"text": f"{str(sound['text'])[:300]} {bad} applies."},
            {"trigger": f"{str(sound['trigger'])[:100]} {bad}"},
            {"tags": [bad]},
        ):
            outcome = read(talk, reply(sound | changed))
            assert leaked(Replay(exchange, None, outcome)) == []


def test_exchanges_without_lesson_are_mostly_not_asked_about() -> None:
    replays = replay("replies_good.jsonl")
    skipped = {one.exchange["id"] for one in replays if one.skipped}
    worth = {one.exchange["id"] for one in replays if one.exchange["label"]["should_emit"]}
    assert not skipped & worth
    assert len(skipped) >= 6
