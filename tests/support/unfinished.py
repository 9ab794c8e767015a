"""Saved chats whose answer proves something.

with_answer(workers, message) -> chat id
"""

from __future__ import annotations

import json
from typing import Any

from lessons_loop.deploy.bench.load_provider import PROVEN
from lessons_loop.deploy.bench.load_stack import WITH
from support.workers import SAID, Workers


def history(message: str) -> dict[str, Any]:
    """Return a chat's history as Open WebUI keeps it, ending with this answer."""
    rows = json.dumps({"columns": ["crates"], "rows": [[1204]], "table": PROVEN})
    call = {"call_id": "call_1", "status": "completed"}
    output = [
        {"type": "function_call", "name": "run_sql", "arguments": json.dumps({"table": PROVEN})},
        {"type": "function_call_output", "output": [{"type": "input_text", "text": rows}]},
    ]
    said = {"type": "message", "content": [{"type": "output_text", "text": SAID}]}
    question = "Please count the crates."  # where is told by the call alone
    asked = {"id": f"q-{message}", "role": "user", "content": question, "parentId": None}
    answer = {
        "id": message,
        "role": "assistant",
        "content": SAID,
        "output": [*(item | call for item in output), said],
        "model": WITH,
        "done": True,
        "parentId": asked["id"],
        "childrenIds": [],
    }
    asked["childrenIds"] = [message]
    messages = {asked["id"]: asked, message: answer}
    return {"messages": messages, "currentId": message}


def with_answer(workers: Workers, message: str) -> str:
    """Save a chat of the admin's that ends with this answer; return its id."""
    chat = {"title": "crates", "models": [WITH], "history": history(message)}
    return str(workers.stack.admin.ask("POST", "/api/v1/chats/new", {"chat": chat})["id"])
