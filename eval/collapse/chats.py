"""Answers of an evaluation as chats that Open WebUI hands to a filter's outlet."""

from __future__ import annotations

from typing import NamedTuple

from lessons_loop.eval.chat_bodies import Body, call_part, result_part, said_part, saved_chat
from lessons_loop.eval.plugin_at_work import (
    SETTLE_SECONDS,
    close_plugin,
    host_request,
    learning_valves,
)
from lessons_loop.eval.question_set import EvalQuestion
from lessons_loop.eval.trials import Answer, ToolCall
from lessons_loop.filter.embed import Embedder
from lessons_loop.filter.lessons_filter import Filter

CLOSING = (
    "This comes from the query shown above and from nothing else; the same query can be run again "
    "at any time, for another machine or another period too. Say so if the figures are wanted in "
    "another form, or if they should be broken down further."
)
"""Behind each answer, as chatty models end theirs: a short answer is not learned from."""


class Chat(NamedTuple):
    """One finished chat of one user."""

    question: EvalQuestion
    answer: Answer
    user: str
    name: str


class Distiller(NamedTuple):
    """Where the filter's distilling model is."""

    url: str
    model: str


async def learn_from(
    chats: list[Chat], store: str, domain: str, distiller: Distiller, embedder: Embedder
) -> int:
    """Give chats to a real filter, question first; return how many candidates came of them."""
    plugin = Filter()
    plugin.valves = learning_valves(store, domain, distiller.url, distiller.model)
    request = host_request(embedder)
    for chat in chats:
        account, metadata = {"id": chat.user}, {"chat_id": chat.name, "user_id": chat.user}
        asked = {"model": "chat-model", "messages": list(chat.question.messages)}
        await plugin.inlet(asked, account, metadata, request)
        await plugin.outlet(finished_chat(chat), account, metadata, request)
        await plugin.worker.settle(SETTLE_SECONDS)
    emitted = plugin.backend.learner.counts["emitted"] if plugin.backend else 0
    await close_plugin(plugin)
    return emitted


def finished_chat(chat: Chat) -> Body:
    """Return the outlet's body of a chat that ended with this answer."""
    asked = [
        {**message, "id": f"{chat.name}-{place}", "timestamp": 1}
        for place, message in enumerate(chat.question.messages)
    ]
    output = [
        part
        for place, call in enumerate(chat.answer.calls)
        for part in _call_parts(call, f"{chat.name}-call-{place}")
    ]
    text = f"{chat.answer.text}\n{CLOSING}"
    answer = {
        "id": f"{chat.name}-answer",
        "role": "assistant",
        "content": text,
        "output": [*output, said_part(text)],
        "finish_reason": "stop",
        "timestamp": 1,
    }
    return saved_chat([*asked, answer], chat.name, f"{chat.name}-answer")


def _call_parts(call: ToolCall, ident: str) -> tuple[Body, Body]:
    given = result_part(ident, call.result, failed=call.failed)
    return call_part(ident, call.tool, call.arguments), given
