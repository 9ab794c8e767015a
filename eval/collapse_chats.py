"""Answers of an evaluation as chats that Open WebUI hands to a filter's outlet."""

from __future__ import annotations

from typing import Any, NamedTuple

from lessons_loop.eval.plugin_at_work import SETTLE_SECONDS, close_plugin, host_request
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
CAP = 10**6
Body = dict[str, Any]


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
    plugin.valves = Filter.Valves(
        store=store,
        domains=domain,
        distill_enabled=True,
        distill_url=distiller.url,
        distill_model=distiller.model,
        distill_daily_cap=CAP,
        distill_user_daily_cap=CAP,
    )
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
    said = {"type": "message", "content": [{"type": "output_text", "text": text}]}
    answer = {
        "id": f"{chat.name}-answer",
        "role": "assistant",
        "content": text,
        "output": [*output, said],
        "finish_reason": "stop",
        "timestamp": 1,
    }
    return {
        "model": "chat-model",
        "messages": [*asked, answer],
        "filter_ids": [],
        "chat_id": chat.name,
        "session_id": "session",
        "id": f"{chat.name}-answer",
    }


def _call_parts(call: ToolCall, ident: str) -> tuple[Body, Body]:
    asked = {
        "type": "function_call",
        "call_id": ident,
        "name": call.tool,
        "arguments": call.arguments,
        "status": "completed",
    }
    given = {
        "type": "function_call_output",
        "call_id": ident,
        "output": [{"type": "input_text", "text": call.result}],
        "status": "failed" if call.failed else "completed",
    }
    return asked, given
