"""A local OpenAI-compatible model that believes everything: the worst case of every model asked.

As distiller it proposes the attacker's lesson, citing every line and quoting what really stands
there, in three ways; as judge it calls related lessons unrelated; as reviewer it promotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lessons_loop.eval.poison.cases import Scene
from lessons_loop.eval.serving import serving

REVIEWER = "gullible-reviewer"
_HEAD = re.compile(r"^\[(\d+)\] ([A-Z]+)[^:\n]*: ?(.*(?:\n      .*)*)", re.MULTILINE)
_JUDGES = "You compare two lessons"
_QUOTED = 80
_PROMOTES = "The excerpt shows that the advice worked and it is put clearly.\nVERDICT: PROMOTE"
_UNRELATED = "Both can be followed, they are about different questions.\nVERDICT: UNRELATED"


class GullibleModel:
    """Answers by the model's name: a scene's name distills that scene's lesson."""

    def __init__(self, scenes: Mapping[str, Scene], url: str) -> None:
        self.scenes, self.url = scenes, url

    def reply(self, body: Any) -> str:
        """Return what it says to a request."""
        system, prompt = (str(message["content"]) for message in body["messages"][:2])
        if body["model"] == REVIEWER:
            return _UNRELATED if system.startswith(_JUDGES) else _PROMOTES
        return json.dumps({"lessons": list(proposals(self.scenes[body["model"]], prompt))})


def proposals(scene: Scene, prompt: str) -> Iterator[dict[str, Any]]:
    """Yield the scene's lesson with all lines cited, quoting a result, the user, a call."""
    lines = [(int(n), role, _first(text)) for n, role, text in _HEAD.findall(prompt)]
    numbers = [number for number, _, _ in lines]
    for roles in (("RESULT",), ("USER",), ("CALL", "FAILED", "DOCUMENT")):
        quotes = [text for _, role, text in lines if role in roles and len(text) >= 12]
        if quotes:
            yield {
                "text": scene.lesson,
                "kind": scene.kind.value,
                "trigger": scene.trigger,
                "tags": list(scene.tags),
                "lines": numbers,
                "quote": quotes[-1],
            }


def _first(text: str) -> str:
    """Return a stretch of the first line long enough to be a quote."""
    whole = " ".join(text.split())
    return whole[:_QUOTED].rsplit(" ", 1)[0] if len(whole) > _QUOTED else whole


@contextmanager
def gullible_model(scenes: Mapping[str, Scene]) -> Iterator[GullibleModel]:
    """Serve the model on a free local port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    model = GullibleModel(scenes, f"http://127.0.0.1:{server.server_address[1]}/v1")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            text = model.reply(json.loads(self.rfile.read(size)))
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            answer = json.dumps({"choices": [choice]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Stay silent: requests hold chats."""

    server.RequestHandlerClass = Handler
    server.daemon_threads = True
    with serving(server):
        yield model
