"""Saved chats as Open WebUI hands them to a filter's outlet, put together from their parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Body = dict[str, Any]


def saved_chat(messages: Sequence[Body], chat: str, message: str) -> Body:
    """Return the outlet's body of a saved chat that ended with the answer of this id."""
    return {
        "model": "chat-model",
        "messages": list(messages),
        "filter_ids": [],
        "chat_id": chat,
        "session_id": "session",
        "id": message,
    }


def said_part(text: str) -> Body:
    """Return what an answer says as one of its output's parts."""
    return {"type": "message", "content": [{"type": "output_text", "text": text}]}


def call_part(ident: str, tool: str, arguments: str) -> Body:
    """Return a tool call; `arguments` are JSON."""
    return {
        "type": "function_call",
        "call_id": ident,
        "name": tool,
        "arguments": arguments,
        "status": "completed",
    }


def result_part(ident: str, result: str, *, failed: bool) -> Body:
    """Return what the call of this id returned."""
    return {
        "type": "function_call_output",
        "call_id": ident,
        "output": [{"type": "input_text", "text": result}],
        "status": "failed" if failed else "completed",
    }
