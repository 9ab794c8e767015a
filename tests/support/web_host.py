"""A local HTTP server that answers by path, as an Open WebUI would or as something else does.

    with WebHost({"GET /api/version": json_answer({"version": "0.12.4"})}) as host:
        connect(host.url)

Paths it does not know get `otherwise`. `received` holds (method, path, Authorization).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Self


class Reply(NamedTuple):
    """One answer."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = {"Content-Type": "application/json"}
    wait: float = 0.0


PAGE = Reply(200, b"<!doctype html><title>Some page</title>", {"Content-Type": "text/html"})
MISSING = Reply(404, b'{"detail": "Not Found"}')


def json_answer(content: object, status: int = 200) -> Reply:
    """Return an answer with JSON."""
    return Reply(status, json.dumps(content).encode())


def redirect(target: str) -> Reply:
    """Return a redirect."""
    return Reply(307, b"", {"Location": target})


class WebHost:
    """The server; a context manager."""

    def __init__(self, answers: Mapping[str, Reply], otherwise: Reply = MISSING) -> None:
        self.received: list[tuple[str, str, str]] = []
        host = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                token = self.headers.get("Authorization", "")
                host.received.append((self.command, self.path, token))
                reply = answers.get(f"{self.command} {self.path}", otherwise)
                time.sleep(reply.wait)
                self.send_response(reply.status)
                for name, value in {
                    **reply.headers,
                    "Content-Length": str(len(reply.body)),
                }.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)

            do_GET = do_POST = _answer

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        """The base address."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
