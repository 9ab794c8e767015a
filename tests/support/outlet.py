"""A finished answer as the outlet sees it, and a model that distills it well."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

from support.llm_server import Received, Step, says

BAD_SQL = "SELECT hours FROM telemetry_hours WHERE serial ILIKE '%4711%'"
GOOD_SQL = (
    "SELECT sum(h.hours) FROM telemetry_hours h JOIN equipment_machine m ON m.id = h.machine_id "
    "WHERE m.serial_key = 'SN004711'"
)
ANSWER = "The machine ran 812 hours. " + "I looked it up by its key in equipment_machine. " * 6
LESSON = {
    "text": "Look machines up in equipment_machine by serial_key instead of ILIKE on the serial.",
    "kind": "fail-fix",
    "trigger": "questions about one machine given its serial",
    "tags": ["serial"],
}


def call(number: int, sql: str, result: str, failed: bool = False) -> list[dict[str, Any]]:
    """Return a tool call and its result as stored output items."""
    status = "failed" if failed else "completed"
    return [
        {
            "type": "function_call",
            "call_id": f"call_{number}",
            "name": "run_sql",
            "arguments": json.dumps({"sql": sql}),
            "status": status,
        },
        {
            "type": "function_call_output",
            "call_id": f"call_{number}",
            "output": [{"type": "input_text", "text": result}],
            "status": status,
        },
    ]


def outlet_body(
    chat: str = "chat-1",
    message: str = "msg-1",
    reply: str = ANSWER,
    finish: str | None = "stop",
    tools: bool = True,
) -> dict[str, Any]:
    """Return the body of an answer in which a call failed and a changed one succeeded."""
    output = [
        *call(1, BAD_SQL, json.dumps({"error": "scan on serial refused"}), failed=True),
        *call(2, GOOD_SQL, json.dumps({"columns": ["sum"], "rows": [[812.5]]})),
        {"type": "message", "content": [{"type": "output_text", "text": reply}]},
    ]
    answer: dict[str, Any] = {"id": message, "role": "assistant", "content": reply}
    if tools:
        answer["output"] = output
    if finish:
        answer["finish_reason"] = finish
    return {
        "model": "m",
        "messages": [
            {"id": "u1", "role": "user", "content": "operating hours of SN-4711?"},
            answer,
        ],
        "chat_id": chat,
        "id": message,
    }


def model_reply(text: str | None = None, fields: Mapping[str, Any] = LESSON) -> Step:
    """Cite, as a good model would, the changed call and its result from the numbered transcript."""

    def step(handler: BaseHTTPRequestHandler, received: Received) -> None:
        prompt = received.body["messages"][-1]["content"]
        lines = [line for line in prompt.splitlines() if line.startswith("[")]
        cited = [int(x[1 : x.index("]")]) for x in lines if "serial_key" in x or "812.5" in x]
        quote = next(x for x in lines if "812.5" in x).split(": ", 1)[1].strip()
        lesson = {**fields, "lines": cited[:2], "quote": quote[:60]}
        says(text or json.dumps({"lessons": [lesson]}))(handler, received)

    return step
