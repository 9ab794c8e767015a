"""A local HTTP server that answers from a thread of its own, for the length of a block."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer
from typing import TypeVar

Server = TypeVar("Server", bound=HTTPServer)
_POLL_SECONDS = 0.05
_END_SECONDS = 5.0


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """Let a bound server answer; it is stopped and its socket closed at the end."""
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(_END_SECONDS)
