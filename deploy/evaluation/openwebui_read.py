"""What the web page was told about one question, read as an answer: pure, events in, answer out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lessons_loop.deploy.webui.exchange import is_error
from lessons_loop.eval.trials import Answer, ToolCall
from lessons_loop.filter.inject import BLOCK_CLOSE, BLOCK_OPEN, reference
from lessons_loop.promote.masking import mask_through

LESSON_LINE = re.compile(
    rf"^- \[([0-9a-f]{{{len(reference('0' * 64))}}})\] Trigger: ", re.MULTILINE
)
KEPT = ("chat:message:error", "chat:completion", "chat:outlet")
OUTAGE_LIMIT = 200
Told = Mapping[str, Any]
"""The payload of one event: `type` and `data`."""


def kept(events: Sequence[Told], message: str) -> list[dict[str, Any]]:
    """Return the answer's events that say what came of it, without the words as they came in."""
    payloads = [event["data"] for event in events if event.get("message_id") == message]
    found = [dict(told) for told in payloads if told.get("type") in KEPT and says_much(told)]
    return [outlet_of(told) if told["type"] == "chat:outlet" else told for told in found]


def outlet_of(told: Told) -> dict[str, Any]:
    """Return an outlet's event with the lessons it saw and the answer; the chat is in the request.

    A temporary chat's outlet sees the system message as the model got it.
    """
    data = told.get("data")
    messages = data.get("messages") if isinstance(data, Mapping) else None
    found = [one for one in messages or () if isinstance(one, Mapping)]
    system = [str(one.get("content")) for one in found if one.get("role") == "system"]
    blocks = [block for text in system if (block := block_in(text))]
    shown = [{"role": "system", "content": block} for block in blocks]
    return {
        "type": "chat:outlet",
        "data": {"messages": [*shown, *(dict(one) for one in found[-1:])]},
    }


def block_in(system: str) -> str:
    """Return the lessons' block of a system message, empty where there is none."""
    start, end = system.find(BLOCK_OPEN), system.rfind(BLOCK_CLOSE)
    return system[start : end + len(BLOCK_CLOSE)] if 0 <= start < end else ""


def says_much(told: Told) -> bool:
    """Say whether an event is more than a piece of the answer."""
    data = told.get("data")
    if told["type"] != "chat:completion":
        return True
    return isinstance(data, Mapping) and bool({"done", "error", "usage"} & set(data))


def read_answer(told: Sequence[Told], seconds: float, model: str) -> Answer:
    """Return the answer; an error, a broken or a missing end is its `outage`."""
    spent = round(seconds, 3)
    if outage := why_none(told):
        return Answer(outage=outage, seconds=spent, model=model)
    ended = final(told)
    output = [item for item in ended.get("output") or () if isinstance(item, Mapping)]
    usage = ended.get("usage") or {}
    return Answer(
        text=said(output) or str(last_message(told).get("content") or "").strip(),
        calls=calls_of(output),
        recalled=recalled(told),
        tokens_in=tokens(usage, "input_tokens", "prompt_tokens"),
        tokens_out=tokens(usage, "output_tokens", "completion_tokens"),
        seconds=spent,
        model=model,
    )


def why_none(told: Sequence[Told]) -> str:
    """Return why there is no whole answer, empty where there is one."""
    for event in told:
        data = event.get("data")
        error = data.get("error") if isinstance(data, Mapping) else None
        if error:
            return f"the model's server: {mask_through(error_text(error))}"
    if not final(told):
        return "the chat ended without an answer"
    if not last_message(told).get("finish_reason"):
        return "the answer broke off"
    return ""


def error_text(error: object) -> str:
    """Return an error in one line, whatever its shape."""
    told = (error.get("content") or error.get("message")) if isinstance(error, Mapping) else error
    return " ".join(str(told or "error without a text").split())[:OUTAGE_LIMIT]


def final(told: Sequence[Told]) -> Mapping[str, Any]:
    """Return what was said at the end of the answer, empty where it never ended."""
    found = [event["data"] for event in told if event["type"] == "chat:completion"]
    return next((data for data in reversed(found) if data.get("done")), {})


def last_message(told: Sequence[Told]) -> Mapping[str, Any]:
    """Return the answer as it stood behind the filters' outlet, empty where that never came."""
    outlets = [event["data"] for event in told if event["type"] == "chat:outlet"]
    messages = outlets[-1].get("messages") if outlets else None
    return messages[-1] if messages else {}


def said(output: Sequence[Told]) -> str:
    """Return all the text a person reads; no reasoning, no calls."""
    parts = [
        str(part.get("text") or "")
        for item in output
        if item.get("type") == "message"
        for part in item.get("content") or ()
    ]
    return "\n".join(part.strip() for part in parts if part.strip())


def calls_of(output: Sequence[Told]) -> tuple[ToolCall, ...]:
    """Return the tool calls in order, each with its result."""
    results = {
        item.get("call_id"): item for item in output if item.get("type") == "function_call_output"
    }
    calls = [item for item in output if item.get("type") == "function_call"]
    return tuple(call_of(call, results.get(call.get("call_id"), {})) for call in calls)


def call_of(call: Told, result: Told) -> ToolCall:
    """Return one call; no result is a failure, an error by its shape too."""
    parts = result.get("output") or ()
    text = parts if isinstance(parts, str) else "\n".join(str(part.get("text")) for part in parts)
    failed = "failed" in (call.get("status"), result.get("status")) or not result or is_error(text)
    arguments = str(call.get("arguments") or "")
    return ToolCall(tool=str(call.get("name")), arguments=arguments, result=text, failed=failed)


def recalled(told: Sequence[Told]) -> tuple[str, ...]:
    """Return the references of the lessons the model was given, in order."""
    blocks = [
        str(message.get("content"))
        for event in told
        if event["type"] == "chat:outlet"
        for message in event["data"].get("messages") or ()
        if message.get("role") == "system"
    ]
    return tuple(found for block in blocks for found in LESSON_LINE.findall(block))


def tokens(usage: Told, *names: str) -> int:
    """Return the first count that is one; Open WebUI adds those of all rounds up."""
    found = (usage.get(name) for name in names)
    return next((int(n) for n in found if isinstance(n, int | float) and n > 0), 0)
