"""A door before a model's endpoint: passes requests on and writes down what was asked.

For the demo, which shows what the provider received. Open WebUI is given this door's
address and no key; the key is added behind it and written nowhere.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests

from lessons_loop.deploy.processes import LOOPBACK
from lessons_loop.eval.serving import serving
from lessons_loop.filter.address import completions_url, public_url

CONNECT_SECONDS, READ_SECONDS = 10.0, 300.0
"""A large model on a CPU may think for minutes before the first word."""
BODY_LIMIT = 20_000_000
CHAT_PATHS = ("/v1/chat/completions", "/chat/completions")


@dataclass(frozen=True)
class Endpoint:
    """A model behind an OpenAI-compatible URL."""

    url: str = field(repr=False)
    model: str
    key: str = field(default="", repr=False)

    @property
    def label(self) -> str:
        """What to call it; safe to print."""
        return f"{self.model} at {public_url(self.url)}"

    def sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the key; being there at all, it keeps requests from reading `.netrc`."""
        if self.key:
            request.headers["Authorization"] = f"Bearer {self.key}"
        return request


class Recorder(ThreadingHTTPServer):
    """The door, on loopback; `log` gets one JSON line per request."""

    daemon_threads = True

    def __init__(self, endpoint: Endpoint, log: Path) -> None:
        self.address = completions_url(endpoint.url)  # before the socket: it may raise
        super().__init__((LOOPBACK, 0), Passage)
        self.endpoint, self.log = endpoint, log
        self._writing = threading.Lock()

    @property
    def url(self) -> str:
        """The base URL for a client."""
        return f"http://{LOOPBACK}:{self.server_address[1]}/v1"

    def note(self, body: Mapping[str, Any]) -> None:
        """Write a request down; only chats offer tools."""
        entry = {"role": "chat" if body.get("tools") else "other", "body": body}
        with self._writing, self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry, ensure_ascii=False) + "\n")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep quiet about a client that went away."""


class Passage(BaseHTTPRequestHandler):
    """One request; the connection ends with its answer."""

    server: Recorder

    def do_GET(self) -> None:
        """List the one model."""
        card = {"id": self.server.endpoint.model, "object": "model", "owned_by": "endpoint"}
        self._send(200, {"object": "list", "data": [card]})

    def do_POST(self) -> None:
        """Pass a chat on, and its answer back as it comes."""
        size = int(self.headers.get("Content-Length") or 0)
        if self.path not in CHAT_PATHS or size > BODY_LIMIT:
            self._send(404, {"error": {"message": f"nothing at {self.path[:80]}"}})
            return
        raw = self.rfile.read(size)
        try:
            self.server.note(json.loads(raw))
        except (ValueError, AttributeError):
            self._send(400, {"error": {"message": "the request is no JSON object"}})
            return
        try:
            self._pass_on(raw)
        except requests.RequestException as error:
            reason = type(error).__name__
            with suppress(OSError):  # the headers may be out already
                self._send(502, {"error": {"message": f"the endpoint failed: {reason}"}})

    def _pass_on(self, raw: bytes) -> None:
        with requests.post(
            self.server.address,
            data=raw,
            headers={"Content-Type": "application/json"},
            auth=self.server.endpoint.sign,
            timeout=(CONNECT_SECONDS, READ_SECONDS),
            stream=True,
            allow_redirects=False,
        ) as answer:
            self.send_response(answer.status_code)
            self.send_header("Content-Type", answer.headers.get("Content-Type", ""))
            self.end_headers()
            for piece in answer.iter_content(None):
                self.wfile.write(piece)
                self.wfile.flush()

    def _send(self, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def recording(endpoint: Endpoint, log: Path) -> Iterator[Recorder]:
    """Run the door for the block; raise ModelError for an address that is none."""
    with serving(Recorder(endpoint, log)) as recorder:
        yield recorder
