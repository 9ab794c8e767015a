"""A local HTTP server before a real Chroma: records, refuses, delays or spoils what passes.

with Relay(server.base, allow=FILTER_MAY) as relay:
    open_server(parse_server(relay.base), "curated")
assert relay.refused == []
"""

from __future__ import annotations

import re
import ssl
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import requests

from support.nginx import allowed


class Call(NamedTuple):
    """One request as it came in; the path without its query."""

    method: str
    path: str
    token: str


class Spoilt(NamedTuple):
    """An answer given in the place of Chroma's."""

    status: int = 200
    body: bytes = b"{}"
    headers: tuple[tuple[str, str], ...] = ()
    trickle: float = 0.0
    """Seconds between the bytes of the body."""


Spoiler = Callable[[Call], Spoilt | None]
FILTER_MAY = allowed()
"""What the policy proxy lets the chat side do, of any tenant; its own rules."""


class Relay:
    """Stands between a client and a Chroma server."""

    def __init__(
        self,
        target: str,
        *,
        allow: re.Pattern[str] | None = None,
        spoil: Spoiler | None = None,
        delay: float = 0.0,
        prefix: str = "",
        certificate: Path | None = None,
    ) -> None:
        self.prefix, self.scheme = prefix, "https" if certificate else "http"
        self.target, self.allow, self.spoil, self.delay = target, allow, spoil, delay
        self.calls: list[Call] = []
        self.refused: list[Call] = []
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def base(self) -> str:
        """Return its address."""
        return f"{self.scheme}://127.0.0.1:{self._server.server_address[1]}{self.prefix}"

    def answer(self, call: Call, query: str, body: bytes) -> Spoilt:
        """Return what the client gets."""
        self.calls.append(call)
        time.sleep(self.delay)
        if self.allow and not self.allow.fullmatch(f"{call.method} {call.path}"):
            self.refused.append(call)
            return Spoilt(403, b'{"error": "forbidden"}')
        if self.spoil and (spoilt := self.spoil(call)):
            return spoilt
        if not call.path.startswith(f"{self.prefix}/api/"):
            return Spoilt(404)
        url = f"{self.target}{call.path.removeprefix(self.prefix)}{query}"
        headers = {"Content-Type": "application/json"}
        answer = requests.request(call.method, url, data=body, headers=headers, timeout=60)
        return Spoilt(answer.status_code, answer.content)

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # of five, a burst of fifty waits a second for its second packet

    def handle_error(self, request: object, client_address: object) -> None:
        """Leave out a client that did not like our certificate."""
        if not isinstance(sys.exception(), ssl.SSLError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def _handler(relay: Relay) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30

        def _relay(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path, mark, query = self.path.partition("?")
            call = Call(self.command, path, self.headers.get("Authorization") or "")
            self._send(relay.answer(call, mark + query, body))

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _relay

        def _send(self, answer: Spoilt) -> None:
            self.close_connection = True
            try:
                self.send_response(answer.status)
                for name, value in answer.headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.send_header("Connection", "close")
                self.end_headers()
                step = 1 if answer.trickle else max(1, len(answer.body))
                for start in range(0, len(answer.body), step):
                    time.sleep(answer.trickle)
                    self.wfile.write(answer.body[start : start + step])
            except OSError:
                pass  # the client has had enough

        def log_message(self, format: str, *args: object) -> None:
            """Keep the test's output clean."""

    return Handler
