"""A local OpenAI-compatible server that behaves as scripted, well or badly.

    with LlmServer([says("NOTHING"), http_error(503)]) as server:
        HttpModel(server.url, "m").ask([...])
        assert server.requests[0].body["model"] == "m"

Each request takes the next step of the script; the last one repeats for ever.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self


class Received(NamedTuple):
    """One request as it came in."""

    path: str
    headers: Mapping[str, str]
    body: Any


Step = Callable[[BaseHTTPRequestHandler, Received], None]


def send(
    handler: BaseHTTPRequestHandler,
    body: bytes,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Write a whole response."""
    handler.send_response(status)
    for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def completion(text: object, finish: str | None = "stop", **message: object) -> dict[str, object]:
    """Return a completion body."""
    inner = {"role": "assistant", "content": text, **message}
    return {"choices": [{"index": 0, "message": inner, "finish_reason": finish}]}


def says(text: object, finish: str | None = "stop", **message: object) -> Step:
    """Answer with this content."""
    return sends(completion(text, finish, **message))


def sends(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Step:
    """Answer with any JSON, or with raw bytes."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda handler, _: send(handler, raw, status, headers)


def http_error(status: int, message: str = "no", **headers: str) -> Step:
    """Answer with an error object; `Retry_After="2"` becomes a header."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return sends({"error": {"message": message}}, status, named)


def refuses(parameter: str, message: str, then: Step) -> Step:
    """Answer 400 as long as a request has the parameter, else do `then`."""

    def step(handler: BaseHTTPRequestHandler, received: Received) -> None:
        wanted = parameter in received.body
        (http_error(400, message) if wanted else then)(handler, received)

    return step


def redirects(address: str) -> Step:
    """Answer with a redirect."""
    return sends({}, 307, {"Location": address})


def hangs(seconds: float) -> Step:
    """Say nothing for a while, then close."""
    return lambda handler, received: time.sleep(seconds)


def dribbles(seconds: float, pause: float = 0.05) -> Step:
    """Send headers, then a body byte by byte that never comes to its end."""

    def step(handler: BaseHTTPRequestHandler, received: Received) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        _drip(handler, seconds, pause)

    return step


def dribbles_headers(seconds: float, pause: float = 0.05) -> Step:
    """Send the header lines byte by byte, never ending them."""

    def step(handler: BaseHTTPRequestHandler, received: Received) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        _drip(handler, seconds, pause)

    return step


def floods(size: int) -> Step:
    """Send a body of this many bytes."""
    return sends(b'{"choices": "' + b"x" * size + b'"}')


def breaks_off(text: str = '{"choices": [') -> Step:
    """Announce more than is sent, and close."""

    def step(handler: BaseHTTPRequestHandler, received: Received) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "5000")
        handler.end_headers()
        handler.wfile.write(text.encode())

    return step


def _drip(handler: BaseHTTPRequestHandler, seconds: float, pause: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            handler.wfile.write(b" ")
            handler.wfile.flush()
        except OSError:
            return
        time.sleep(pause)


class _Http(ThreadingHTTPServer):
    daemon_threads, block_on_close = True, False
    request_queue_size = 128  # of five, a burst waits a second for its second packet


class LlmServer:
    """The server; a context manager. `url` ends in `/v1`, `requests` is what it received."""

    def __init__(self, script: Sequence[Step]) -> None:
        self.script = list(script)
        self.requests: list[Received] = []
        self._lock = threading.Lock()
        server = self

        class _Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                received = Received(self.path, dict(self.headers), _body(self.rfile.read(size)))
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    server._next(received)(self, received)
                self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        """Return the port, chosen freely."""
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        """Return the base address."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)

    def _next(self, received: Received) -> Step:
        with self._lock:
            self.requests.append(received)
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]


def _body(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None
