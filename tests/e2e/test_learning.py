from __future__ import annotations

import asyncio

from lessons_loop.deploy.webui.browser import Browser, Turn
from support.openwebui import MODEL, PLUGIN, Server
from support.processes import soon
from support.teaching import COUNT, TOOL_ID, distil_widgets

GADGETS = "How do I count the gadgets in the warehouse?"


def left_behind(server: Server) -> tuple[int, int]:
    """Return how many candidates and usage events there are, spooled ones moved on."""
    server.move_spooled()
    return len(server.staged()), len(server.usages())


def learn(server: Server, question: str = COUNT, **options: object) -> Turn:
    """Ask a question whose answer proves something."""
    server.provider.distiller = distil_widgets
    return server.ask(question, tool_ids=[TOOL_ID], **options)


def test_finished_chat_leaves_a_candidate(openwebui: Server) -> None:
    before = left_behind(openwebui)[0]
    learn(openwebui)
    staged = soon(lambda: openwebui.staged()[before:])
    assert "widget_ledger" in staged[0].lesson.text
    assert staged[0].evidence.tools == ("count_widgets",)
    assert staged[0].user_ref and staged[0].chat_ref
    assert openwebui.admin.token not in staged[0].model_dump_json()


def test_used_lessons_leave_an_event(openwebui: Server) -> None:
    usage = openwebui.usage_of(openwebui.ask(GADGETS))
    assert usage.outcome == "stop"
    assert len(usage.keys) == 1


def test_temporary_chat_leaves_nothing(openwebui: Server) -> None:
    before = left_behind(openwebui)
    learn(openwebui, COUNT + " " + GADGETS, temporary=True)
    asyncio.run(asyncio.sleep(3))
    assert openwebui.provider.distills == []
    assert left_behind(openwebui) == before


def test_opted_out_user_leaves_nothing(openwebui: Server) -> None:
    mallory = openwebui.user("mallory")
    mallory.set_user_valves(PLUGIN, {"contribute": False})
    before = left_behind(openwebui)
    learn(openwebui, COUNT + " " + GADGETS, client=mallory)
    asyncio.run(asyncio.sleep(3))
    assert openwebui.provider.distills == []
    assert left_behind(openwebui) == before


def test_broken_answer_is_not_learned_from(openwebui: Server) -> None:
    openwebui.provider.distiller = distil_widgets
    before = left_behind(openwebui)[0]
    turn = openwebui.ask("ERRSTREAM please")
    assert openwebui.admin.stored_message(turn.chat_id, turn.message_id)["error"]
    asyncio.run(asyncio.sleep(3))
    assert openwebui.provider.distills == []
    assert left_behind(openwebui)[0] == before


def test_stop_in_mid_stream_is_not_learned_from(openwebui: Server) -> None:
    openwebui.provider.distiller = distil_widgets

    async def work(browser: Browser) -> Turn:
        turn = await browser.ask(MODEL, f"SLOW {GADGETS}", wait=False)
        await browser.until(turn, lambda turn: len(turn.of_type("response:completion")) > 3)
        await asyncio.to_thread(openwebui.admin.stop_chat, turn.chat_id)
        return await browser.until(turn, lambda turn: turn.ended)

    turn = openwebui.page(work)
    assert turn.of_type("chat:tasks:cancel") or turn.ended
    assert "Echo" in openwebui.admin.chat(MODEL, "still there?").text
    assert openwebui.provider.distills == []


def test_stop_after_the_answer_keeps_the_candidate(openwebui: Server) -> None:
    before = left_behind(openwebui)[0]
    turn = learn(openwebui, COUNT + " once more, for the second shelf.")
    openwebui.admin.stop_chat(turn.chat_id)
    assert soon(lambda: openwebui.staged()[before:])


def test_plain_api_chat_is_not_learned_from(openwebui: Server) -> None:
    openwebui.provider.distiller = distil_widgets
    before = left_behind(openwebui)
    openwebui.admin.chat(MODEL, GADGETS)
    asyncio.run(asyncio.sleep(3))
    assert openwebui.provider.distills == []
    assert left_behind(openwebui) == before


def test_two_users_count_as_two(openwebui: Server) -> None:
    before = left_behind(openwebui)[0]
    learn(openwebui, COUNT, client=openwebui.user("ann"))
    learn(openwebui, COUNT, client=openwebui.user("ben"))
    staged = soon(lambda: len(found := openwebui.staged()[before:]) >= 2 and found)
    assert len({candidate.user_ref for candidate in staged}) == 2
    assert len({candidate.lesson.key for candidate in staged}) == 1
