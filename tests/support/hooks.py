"""One chat with the filter over published files, its hooks called as Open WebUI calls them."""

from __future__ import annotations

from lessons_loop.filter.inject import BLOCK_OPEN
from lessons_loop.filter.lessons_filter import Filter
from support.gate import HashEmbedder
from support.patient import PATIENT_MS
from support.shelf import app_with

EMBEDDER = HashEmbedder(256)
ASKED = "operating hours of the machine with serial SN-4711?"


class Request:
    """What a hook gets as `__request__`, as far as we read it."""

    def __init__(self, app):
        self.app = app


class Chat:
    """One chat with the filter, called as Open WebUI calls it."""

    def __init__(self, root, app=None, user_valves=None, **valves):
        self.filter = Filter()
        usual = {"store": str(root), "domains": "sql", "recall_timeout_ms": PATIENT_MS}
        self.filter.valves = Filter.Valves(**(usual | valves))
        self.request = Request(app or app_with(EMBEDDER))
        self.user = {"id": "user-1", "valves": Filter.UserValves(**(user_valves or {}))}
        self.events = []

    async def emit(self, event):
        self.events.append(event)

    async def inlet(self, text=ASKED, metadata=None, body=None):
        body = body or {"model": "m", "messages": [{"role": "user", "content": text}]}
        self.metadata = {"chat_id": "c1"} if metadata is None else metadata
        return await self.filter.inlet(
            body=body,
            __user__=self.user,
            __metadata__=self.metadata,
            __request__=self.request,
            __event_emitter__=self.emit,
        )


def turns(*texts):
    """Return a body with these questions and answers, taken in turns."""
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]
    return {"model": "m", "messages": messages}


def blocks(body):
    return [m["content"] for m in body["messages"] if BLOCK_OPEN in str(m["content"])]
