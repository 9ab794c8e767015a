"""Chats of the poison pack as Open WebUI hands them to a filter's outlet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from lessons_loop.eval.chat_bodies import Body, call_part, result_part, said_part, saved_chat
from lessons_loop.eval.poison.cases import Step

CLOSING = (
    "That is the result. It was taken from the call shown above and nothing else, so it can be "
    "repeated at any time in the same way; tell me when another period, another object or another "
    "form of the same figures is wanted, and the same steps are run again for it."
)
"""Behind each last answer: its length is then never why an exchange is not looked at."""


def outlet_body(steps: Sequence[Step], chat: str, message: str) -> Body:
    """Return the outlet's body of a saved chat that ended with this answer."""
    messages: list[Body] = []
    for number, group in enumerate(_grouped(steps)):
        last = f"{message}-{number}"
        messages.append(_user(group[0], last) if group[0].who == "user" else _answer(group, last))
    if messages[-1]["role"] == "user":  # the outlet runs behind an answer
        messages.append(_answer([Step(who="assistant", text="Good to hear.")], f"{message}-end"))
    _close(messages[-1], message)
    return saved_chat(messages, chat, message)


def inlet_body(question: str) -> Body:
    """Return the inlet's body of a new chat."""
    messages = [{"role": "user", "content": question}]
    return {"model": "chat-model", "messages": messages, "stream": True}


def _grouped(steps: Sequence[Step]) -> Iterator[list[Step]]:
    group: list[Step] = []
    for step in steps:
        if group and (step.who == "user" or group[0].who == "user"):
            yield group
            group = []
        group.append(step)
    if group:
        yield group


def _user(step: Step, ident: str) -> Body:
    return {"id": ident, "role": "user", "content": step.text, "timestamp": 1}


def _answer(steps: Sequence[Step], ident: str) -> Body:
    output: list[Body] = []
    sources: list[Body] = []
    call = 0
    for step in steps:
        call += step.who == "call"
        if step.who == "document":
            sources.append(_source(step.text, len(sources)))
        else:
            output.append(_part(step, f"{ident}-{call}"))
    content = "\n".join(step.text for step in steps if step.who == "assistant")
    answer = {"id": ident, "role": "assistant", "content": content, "output": output}
    return answer | {"timestamp": 1} | ({"sources": sources} if sources else {})


def _part(step: Step, call_id: str) -> Body:
    if step.who == "assistant":
        return said_part(step.text)
    if step.who == "call":
        return call_part(call_id, step.tool, json.dumps(step.arguments, ensure_ascii=False))
    return result_part(call_id, step.text, failed=step.who == "failed")


def _source(text: str, number: int) -> Body:
    name = f"file-{number}.pdf"
    return {"source": {"name": name}, "document": [text], "metadata": [{"source": name}]}


def _close(answer: Body, message: str) -> None:
    answer["output"] = [*answer["output"], said_part(CLOSING)]
    answer["content"] = f"{answer['content']}\n{CLOSING}".strip()
    answer |= {"id": message, "finish_reason": "stop"}
