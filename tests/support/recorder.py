"""An upstream that keeps every byte of what reaches it, and knows some collections by their id.

with Recorder({("curated", one_id)}) as seen:
    Proxy(folder, seen.port)
"""

from __future__ import annotations

import re
import socketserver
import threading
from collections.abc import Set
from types import TracebackType
from typing import NamedTuple, Self

_BY_ID = re.compile(
    r"GET /api/v2/tenants/default_tenant/databases/(\w+)/collections/by-id/(\S+) .*"
)


class Reached(NamedTuple):
    """One request as it came in."""

    line: str
    headers: dict[str, str]
    """Names in lower case; of two of a name both values, joined by ` + `."""
    body: bytes

    @property
    def is_lookup(self) -> bool:
        """Say whether the proxy asks here of which database an id is."""
        return _BY_ID.fullmatch(self.line) is not None


class Recorder:
    """Stands where Chroma would; answers everything with `{}`."""

    def __init__(self, known: Set[tuple[str, str]] = frozenset(), *, fickle: bool = False) -> None:
        """`fickle`: a second request on a connection is read and the connection closed."""
        self.known, self.reached, self.fickle = known, list[Reached](), fickle
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def port(self) -> int:
        """Return where it listens."""
        return int(self._server.server_address[1])

    @property
    def calls(self) -> list[Reached]:
        """Return what reached it apart from look-ups of ids."""
        return [one for one in self.reached if not one.is_lookup]

    def status(self, request: Reached) -> str:
        """Return what a request is answered with."""
        found = _BY_ID.fullmatch(request.line)
        return "404 Not Found" if found and found.groups() not in self.known else "200 OK"

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


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True


def _handler(recorder: Recorder) -> type[socketserver.StreamRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        timeout = 30

        def handle(self) -> None:
            answered = 0
            while line := self.rfile.readline():
                headers: dict[str, str] = {}
                while (header := self.rfile.readline().rstrip(b"\r\n")) != b"":
                    name, _, value = header.decode("latin-1").partition(": ")
                    known = headers.get(name.lower())
                    headers[name.lower()] = f"{known} + {value}" if known is not None else value
                body = self.rfile.read(int(headers.get("content-length") or 0))
                request = Reached(line.decode("latin-1").rstrip("\r\n"), headers, body)
                recorder.reached.append(request)
                if recorder.fickle and answered:
                    return
                answered += 1
                head = f"HTTP/1.1 {recorder.status(request)}\r\nContent-Length: 2\r\n\r\n"
                self.wfile.write(head.encode() + b"{}")

    return Handler
