"""Chats the way Open WebUI's web page holds them: a socket for events, one POST per question."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from lessons_loop.deploy.webui.client import Json, OpenWebUI, OpenWebUIError, decoded

TURN_SECONDS = 90.0
FEATURES = ("voice", "image_generation", "code_interpreter", "web_search", "memory")


@dataclass
class Turn:
    """One question and what came back for it."""

    chat_id: str
    question_id: str
    message_id: str
    """Id of the answer."""
    refused: str = ""
    """Why the server did not take the question; empty where it did."""
    events: list[Json] = field(default_factory=list)
    """Everything the page was told about this chat since the question."""

    def of_type(self, *kinds: str) -> list[Any]:
        """Return the payloads of the answer's events of these types, in order."""
        return [
            event["data"].get("data")
            for event in self.events
            if event["data"].get("type") in kinds and event.get("message_id") == self.message_id
        ]

    @property
    def ended(self) -> bool:
        """Whether the server said that nothing more comes."""
        return any(
            event["data"].get("type") == "chat:active"
            and event["data"]["data"].get("active") is False
            for event in self.events
        )


class Browser:
    """One open page of one user; made by `open_browser`."""

    def __init__(self, client: OpenWebUI, socket: Any) -> None:
        self.client = client
        self.socket = socket
        self.session_id = ""
        self._received: list[Json] = []
        socket.on("events", self._receive)

    @property
    def received(self) -> int:
        """How many events came so far."""
        return len(self._received)

    async def _receive(self, event: object, *_rest: object) -> None:
        if isinstance(event, dict) and isinstance(event.get("data"), dict):
            self._received.append(event)

    async def ask(
        self, model: str, text: str, *, wait: bool = True, temporary: bool = False, **extra: object
    ) -> Turn:
        """Ask in a new chat (temporary: never stored) and wait until the turn has ended."""
        return await self.say(model, text, None, wait=wait, temporary=temporary, extra=extra)

    async def follow_up(self, model: str, text: str, turn: Turn, **extra: object) -> Turn:
        """Ask on in the chat of an earlier turn."""
        return await self.say(model, text, turn, wait=True, temporary=False, extra=extra)

    async def say(
        self, model: str, text: str, after: Turn | None, *, wait: bool, temporary: bool, extra: Json
    ) -> Turn:
        """Send one question; see `ask` and `follow_up`."""
        body = question(model, text, self.session_id, after)
        if temporary:
            message = {"id": body["user_message"]["id"], "role": "user", "content": text}
            body |= {"chat_id": f"temporary:{self.session_id}", "messages": [message]}
        mark = len(self._received)
        path = "/api/chat/completions"
        response = await asyncio.to_thread(self.client.send, "POST", path, body | extra)
        turn = Turn("", body["user_message"]["id"], body["id"])
        if not response.ok:
            turn.refused = response.text[:500]
            return turn
        taken = decoded(response, f"POST {path}")
        turn.chat_id = str(taken.get("chat_id") or body.get("chat_id", ""))
        if wait:
            await self.until(turn, lambda turn: turn.ended, mark)
        return turn

    async def until(
        self, turn: Turn, seen: Callable[[Turn], bool], mark: int = 0, seconds: float = TURN_SECONDS
    ) -> Turn:
        """Wait until `seen(turn)` holds; raise OpenWebUIError after `seconds`, or cut off."""
        deadline = time.monotonic() + seconds
        while True:
            received = self._received[mark:]
            turn.events = [event for event in received if event.get("chat_id") == turn.chat_id]
            if seen(turn):
                return turn
            if not self.socket.connected:
                raise OpenWebUIError(f"the connection to {self.client.url} was lost")
            if time.monotonic() > deadline:
                kinds = sorted({str(event["data"].get("type")) for event in turn.events})
                raise OpenWebUIError(
                    f"the chat did not end within {seconds:.0f} s; events seen: {', '.join(kinds)}"
                )
            await asyncio.sleep(0.05)


@asynccontextmanager
async def open_browser(client: OpenWebUI) -> AsyncIterator[Browser]:
    """Open a page for the signed-in user; raise OpenWebUIError without a connection."""
    import aiohttp
    import socketio

    async with aiohttp.ClientSession() as http:
        socket = socketio.AsyncClient(
            http_session=http,
            reconnection=False,
            handle_sigint=False,  # its own one would swallow Ctrl-C
        )
        browser = Browser(client, socket)
        auth = {"token": client.token}
        try:
            await socket.connect(
                client.url, socketio_path="/ws/socket.io", auth=auth, transports=["websocket"]
            )
            await socket.call("user-join", {"auth": auth}, timeout=20)
        except (socketio.exceptions.SocketIOError, aiohttp.ClientError, OSError) as error:
            await socket.disconnect()
            reason = str(error) or type(error).__name__
            raise OpenWebUIError(f"no socket connection to {client.url}: {reason}") from None
        try:
            browser.session_id = str(socket.get_sid())
            yield browser
        finally:
            await socket.disconnect()


def question(model: str, text: str, session_id: str, after: Turn | None) -> Json:
    """Return the request body the web page would send."""
    question_id, answer_id = str(uuid.uuid4()), str(uuid.uuid4())
    parent = after.message_id if after else None
    tasks = ["follow_up_generation"] + ([] if after else ["title_generation", "tags_generation"])
    body: Json = {
        "stream": True,
        "model": model,
        "params": {},
        "tool_ids": [],
        "tool_servers": [],
        "features": dict.fromkeys(FEATURES, False),
        "variables": {},
        "chat_variables": {},
        "session_id": session_id,
        "id": answer_id,
        "parent_id": parent,
        "user_message": {
            "id": question_id,
            "parentId": parent,
            "childrenIds": [answer_id],
            "role": "user",
            "content": text,
            "timestamp": int(time.time()),
            "models": [model],
        },
        "background_tasks": dict.fromkeys(tasks, True),
    }
    return body | ({"chat_id": after.chat_id} if after else {})
