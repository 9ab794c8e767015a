from __future__ import annotations

import json
from typing import Any

from lessons_loop.deploy.webui.browser import Browser, Turn
from lessons_loop.filter.inject import BLOCK_CLOSE, BLOCK_OPEN
from support.openwebui import MODEL, PLUGIN, Server
from support.processes import soon
from support.provider import system_text
from support.teaching import TOOL_ID

GADGETS = "How do I count the gadgets in the warehouse?"
ADVICE = "gadget_ledger"


def stored_with(server: Server, turn: Turn, field: str) -> Any:
    """Return the stored answer once it has this field."""
    message = server.admin.stored_message(turn.chat_id, turn.message_id)
    return message if message.get(field) else None


def test_shipped_plugin_loads_active_and_global(openwebui: Server) -> None:
    found = openwebui.admin.function(PLUGIN)
    assert found
    assert (found["type"], found["is_active"], found["is_global"]) == ("filter", True, True)


def test_api_question_carries_the_lesson(openwebui: Server) -> None:
    response = openwebui.admin.chat(MODEL, GADGETS)
    assert response.status_code == 200
    (body,) = openwebui.provider.received(GADGETS)
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert ADVICE in system_text(body)
    assert body["messages"][1]["content"] == GADGETS


def test_small_talk_goes_out_untouched(openwebui: Server) -> None:  # T-04
    openwebui.admin.chat(MODEL, "good morning!")
    (body,) = openwebui.provider.received("good morning!")
    assert body["messages"] == [{"role": "user", "content": "good morning!"}]


def test_own_system_prompt_stays_first_and_whole(openwebui: Server) -> None:  # T-02
    prompt = "You are Ops.  Answer in one line.\n"
    messages = [{"role": "system", "content": prompt}, {"role": "user", "content": GADGETS}]
    openwebui.admin.chat(MODEL, GADGETS, messages=messages)
    (body,) = openwebui.provider.received(GADGETS)
    assert system_text(body).startswith(prompt)
    assert ADVICE in system_text(body).removeprefix(prompt)


def test_user_sees_status_and_source(openwebui: Server) -> None:
    turn = openwebui.ask(GADGETS)
    message = soon(lambda: stored_with(openwebui, turn, "sources"))
    assert "Echo" in message["content"]
    assert [line["description"] for line in message["statusHistory"]] == ["Using 1 learned lesson"]
    (source,) = message["sources"]
    assert ADVICE in source["document"][0]


def test_lessons_keep_their_place_in_the_next_turn(openwebui: Server) -> None:  # T-03
    async def work(browser: Browser) -> Turn:
        first = await browser.ask(MODEL, GADGETS)
        return await browser.follow_up(MODEL, "And the gadgets in the second warehouse?", first)

    openwebui.page(work)
    (first,) = openwebui.provider.received(GADGETS)
    (second,) = openwebui.provider.received("And the gadgets")
    shown = system_text(first).removesuffix(BLOCK_CLOSE)
    assert ADVICE in shown
    assert system_text(second).startswith(shown)


def test_lesson_survives_a_citation_tool(openwebui: Server) -> None:
    question = GADGETS + ' TOOL:fetch_url ARGS:{"url": "https://example.com"}END'
    turn = openwebui.ask(question, tool_ids=[TOOL_ID])
    assert "Done" in soon(lambda: stored_with(openwebui, turn, "content"))["content"]
    bodies = [body for body in openwebui.provider.received("TOOL:") if body.get("tools")]
    assert len(bodies) == 2
    assert [system_text(body).count(BLOCK_OPEN) for body in bodies] == [1, 1]


def test_two_models_at_once_both_get_the_lesson(openwebui: Server) -> None:
    import uuid

    async def work(browser: Browser) -> Turn:
        entries = [
            {"model_id": model, "message_id": str(uuid.uuid4())} for model in (MODEL, "fake-small")
        ]
        turn = await browser.ask(MODEL, GADGETS, message_ids=entries, wait=False)
        turn.message_id = entries[0]["message_id"]
        return await browser.until(turn, lambda turn: turn.ended)

    turn = openwebui.page(work)
    assert soon(lambda: len(openwebui.provider.received(GADGETS)) == 2)
    asked = openwebui.provider.received(GADGETS)
    assert sorted(body["model"] for body in asked) == ["fake-chat", "fake-small"]
    assert all(ADVICE in system_text(body) for body in asked)

    def sources() -> list[int]:
        messages = openwebui.admin.stored_chat(turn.chat_id)["chat"]["history"]["messages"]
        answers = [message for message in messages.values() if message["role"] == "assistant"]
        return [len(answer.get("sources", [])) for answer in answers]

    assert soon(lambda: sources() == [1, 1])


def test_opted_out_user_gets_no_lesson(openwebui: Server) -> None:
    eve = openwebui.user("eve")
    eve.set_user_valves(PLUGIN, {"use_lessons": False})
    openwebui.ask(GADGETS, client=eve)
    openwebui.ask(GADGETS, client=openwebui.user("adam"))
    carried = [BLOCK_OPEN in system_text(body) for body in openwebui.provider.received(GADGETS)]
    assert carried == [False, True]


def test_hidden_lessons_are_still_used(openwebui: Server) -> None:
    bob = openwebui.user("bob")
    bob.set_user_valves(PLUGIN, {"show_lessons": False})
    turn = openwebui.ask(GADGETS, client=bob)
    message = bob.stored_message(turn.chat_id, turn.message_id)
    assert not message.get("sources") and not message.get("statusHistory")
    assert ADVICE in system_text(openwebui.provider.received(GADGETS)[0])


def test_provider_error_stays_the_providers(openwebui: Server) -> None:
    turn = openwebui.ask(f"{GADGETS} ERROR500")
    (error,) = turn.of_type("chat:message:error")
    assert error["error"]["content"] == "fake provider error 500"
    assert "Echo" in openwebui.admin.chat(MODEL, "still there?").text


def test_lesson_stays_out_of_the_title_request(openwebui: Server) -> None:
    openwebui.ask(GADGETS)
    tasks = soon(openwebui.provider.tasks)
    assert not any(BLOCK_OPEN in json.dumps(body) for body in tasks)


def test_nonsensical_valves_do_not_break_the_chat(openwebui: Server) -> None:  # T-10
    stored = {"top_k": "", "min_similarity": "0,3", "recall_timeout_ms": "abc", "domains": "sql"}
    openwebui.admin.set_valves("functions", PLUGIN, stored)

    def advised() -> bool:  # within the usual 1.5 s, which a busy machine misses at times
        openwebui.provider.clear()
        assert openwebui.admin.chat(MODEL, GADGETS).status_code == 200
        return ADVICE in system_text(openwebui.provider.received(GADGETS)[0])

    assert soon(advised)


def test_long_paste_is_answered(openwebui: Server) -> None:  # T-06
    paste = "Summarise this log: " + "ERROR x=1 " * 20_000
    assert openwebui.admin.chat(MODEL, paste).status_code == 200
    (body,) = openwebui.provider.received("Summarise this log")
    assert body["messages"][-1]["content"] == paste
