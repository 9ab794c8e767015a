"""A fake OpenAI-compatible provider on loopback that misbehaves on demand and remembers requests.

In the last user message: `TOOL:name ARGS:{json}END` calls that tool once, `ERROR500`
answers 500, `ERRSTREAM` breaks off in mid-stream, `SLOW` streams for ten seconds. Anything
else is echoed. Scripted replies (`script`) come first.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODELS = ("fake-chat", "fake-small")
DIMENSION = 64
SLOW_WORDS = 40
TASKS = {
    "follow_ups": {"follow_ups": ["What next?"]},
    '"tags"': {"tags": ["Testing"]},
    '"title"': {"title": "A title"},
    "queries": {"queries": ["q"]},
}
Json = dict[str, Any]
USUAL_ARGUMENTS = {"count_widgets": '{"table": "widget_ledger"}'}
"""How the model calls a tool where the question does not say: only that can be learned from."""


class ProviderServer(ThreadingHTTPServer):
    """The HTTP server behind a provider."""

    daemon_threads = True
    provider: Provider


class Provider:
    """The running provider; `url` ends in /v1."""

    def __init__(self) -> None:
        self.chats: list[Json] = []
        self.embeddings: list[Json] = []
        self.embedded = 0
        """Requests for embeddings that were answered."""
        self.distills: list[Json] = []
        self.scripts: list[tuple[str, str]] = []
        self.embed_seconds = 0.0
        """How long an embeddings request hangs before its answer."""
        self.embed_status = 200
        self.distiller: Callable[[Json], str] = nothing_to_learn
        self.server = ProviderServer(("127.0.0.1", 0), Handler)
        self.server.provider = self
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self) -> Provider:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()

    def script(self, match: str, reply: str) -> None:
        """Answer `reply` to every request with `match` in any of its messages."""
        self.scripts.insert(0, (match, reply))

    def received(self, match: str) -> list[Json]:
        """Return the chat requests whose last user message contains `match`, oldest first."""
        return [b for b in list(self.chats) if match in last_question(b) and not is_task(b)]

    def tasks(self) -> list[Json]:
        """Return the requests for titles, tags and the like."""
        return [body for body in list(self.chats) if is_task(body)]

    def clear(self) -> None:
        """Forget requests and scripts."""
        self.chats.clear()
        self.distills.clear()
        self.distiller = nothing_to_learn
        self.embed_seconds, self.embed_status = 0.0, 200
        self.embeddings.clear()
        self.scripts.clear()


def nothing_to_learn(_body: Json) -> str:
    """Answer a distill request as a model that found nothing."""
    return "NOTHING"


def is_distill(body: Json) -> bool:
    """Say whether a request asks to distill lessons."""
    system = system_text(body)
    return "NOTHING" in system and '"lessons"' in system


def is_task(body: Json) -> bool:
    """Say whether a request asks for a title and the like; with tools it wraps a citation."""
    return "### Task:" in last_question(body) and not body.get("tools")


def content_text(content: object) -> str:
    """Return a message's text, whatever its shape."""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "")


def last_question(body: Json) -> str:
    """Return the last user message of a request."""
    users = [message for message in body["messages"] if message["role"] == "user"]
    return content_text(users[-1]["content"]) if users else ""


def system_text(body: Json) -> str:
    """Return all system text of a request."""
    system = [message for message in body["messages"] if message["role"] == "system"]
    return "\n".join(content_text(message["content"]) for message in system)


def lessons_in(system: str) -> int:
    """Return how many lessons a system text tells."""
    return system.count("] Trigger: ")


def embed(text: str) -> list[float]:
    """Return a bag-of-words vector: shared words make texts similar."""
    vector = [0.0] * DIMENSION
    for word in text.lower().split():
        vector[int(hashlib.sha256(word.encode()).hexdigest(), 16) % DIMENSION] += 1.0
    length = math.sqrt(sum(value * value for value in vector)) or 1.0
    return [value / length for value in vector]


def decide(provider: Provider, body: Json) -> tuple[str, Any]:
    """Return what kind of answer to give, and its content."""
    if is_distill(body):
        provider.distills.append(body)
        return "text", provider.distiller(body)
    provider.chats.append(body)
    question = last_question(body)
    whole = "\n".join(content_text(message.get("content")) for message in body["messages"])
    for match, reply in provider.scripts:
        if match in whole:
            return "text", reply
    if is_task(body):
        found = (answer for sign, answer in TASKS.items() if sign in question.lower())
        return "text", json.dumps(next(found, {}))
    if "TOOL:" in question:
        return next_step(body, question)
    for sign, kind in (("ERROR500", "error"), ("ERRSTREAM", "broken"), ("SLOW", "slow")):
        if sign in question:
            return kind, "word " * SLOW_WORDS
    return "text", f"Echo: {question[:200]}"


def next_step(body: Json, question: str) -> tuple[str, Any]:
    """Call the tool the question names, unless its result is already there."""
    done = any(message["role"] == "tool" for message in body["messages"][-3:])
    if done or not body.get("tools"):
        return "text", f"Done: {question[:200]} " + "and so it is. " * 20
    name = question.split("TOOL:")[1].split()[0]
    arguments = USUAL_ARGUMENTS.get(name, "{}")
    if "ARGS:" in question:
        arguments = question.split("ARGS:")[1].split("END")[0].strip()
    return "tool", (name, arguments)


def whole_answer(body: Json, kind: str, value: Any) -> Json:
    """Return a non-streamed answer."""
    message: Json = {"role": "assistant", "content": None if kind == "tool" else value}
    if kind == "tool":
        message["tool_calls"] = [tool_call(value)]
    reason = "tool_calls" if kind == "tool" else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {"id": "c-1", "object": "chat.completion", "model": body["model"], "choices": [choice]}


def tool_call(value: tuple[str, str]) -> Json:
    """Return one native tool call."""
    function = {"name": value[0], "arguments": value[1]}
    return {"id": f"call_{uuid.uuid4().hex[:8]}", "type": "function", "function": function}


def deltas(kind: str, value: Any) -> Iterator[tuple[Json, str | None]]:
    """Yield the pieces of a streamed answer with their finish reason."""
    yield {"role": "assistant", "content": ""}, None
    if kind == "tool":
        yield {"tool_calls": [{"index": 0} | tool_call(value)]}, None
        yield {}, "tool_calls"
        return
    for word in str(value).split(" "):
        if kind == "slow":
            time.sleep(10 / SLOW_WORDS)
        yield {"content": word + " "}, None
        if kind == "broken":
            return
    yield {}, "stop"


def stream(body: Json, kind: str, value: Any) -> Iterator[str]:
    """Yield the lines of a streamed answer."""
    for delta, reason in deltas(kind, value):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        piece = {"id": "c-1", "object": "chat.completion.chunk", "model": body["model"]}
        yield f"data: {json.dumps(piece | {'choices': [choice]})}\n\n"
    if kind == "broken":
        yield f"data: {json.dumps({'error': {'message': 'boom in mid-stream'}})}\n\n"
        return
    yield "data: [DONE]\n\n"


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: ProviderServer

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        entries = [{"id": name, "object": "model", "owned_by": "fake"} for name in MODELS]
        self.reply(200, {"object": "list", "data": entries})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            if self.path.endswith("/embeddings"):
                self.embed(body)
            else:
                self.chat(body)
        except (BrokenPipeError, ConnectionResetError):  # Stop was pressed
            return

    def embed(self, body: Json) -> None:
        self.server.provider.embeddings.append(body)
        time.sleep(self.server.provider.embed_seconds)
        if self.server.provider.embed_status != 200:
            self.reply(self.server.provider.embed_status, {"error": {"message": "no model"}})
            return
        self.server.provider.embedded += 1
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        rows = [
            {"object": "embedding", "index": index, "embedding": embed(text)}
            for index, text in enumerate(texts)
        ]
        self.reply(200, {"object": "list", "model": body.get("model"), "data": rows})

    def chat(self, body: Json) -> None:
        kind, value = decide(self.server.provider, body)
        if kind == "error":
            self.reply(500, {"error": {"message": "fake provider error 500"}})
        elif not body.get("stream"):
            self.reply(200, whole_answer(body, kind, value))
        else:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for line in stream(body, kind, value):
                self.wfile.write(line.encode())
                self.wfile.flush()

    def reply(self, status: int, body: Json) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
