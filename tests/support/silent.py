"""A TCP relay whose connections can die without a word, as when a node is lost.

with SilentRelay(server.port) as relay:
    ...                 # connect to relay.port
    relay.forget()      # what is open stays open and carries nothing any more
"""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class SilentRelay:
    """Passes bytes on to a port of this machine, in both directions."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._open: set[socket.socket] = set()
        self._forgotten: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)

    @property
    def port(self) -> int:
        """Return where it listens."""
        return int(self._listener.getsockname()[1])

    @property
    def connected(self) -> int:
        """Return how many connections its clients hold open."""
        with self._lock:
            return len(self._open)

    def forget(self) -> None:
        """Carry nothing any more on the connections there are; new ones work."""
        with self._lock:
            self._forgotten |= self._open

    def __enter__(self) -> Self:
        """Begin to listen."""
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening and close what is open."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for client in self._open:
                client.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with self._lock:
                    self._open.add(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self.target)) as server:
            back = threading.Thread(target=self._pass, args=(server, client, client), daemon=True)
            back.start()
            self._pass(client, server, client)
        with self._lock:
            self._open.discard(client)
        client.close()

    def _pass(self, source: socket.socket, to: socket.socket, client: socket.socket) -> None:
        """Pass bytes on until the source ends; those of a forgotten client vanish."""
        with contextlib.suppress(OSError):
            while part := source.recv(65536):
                if client not in self._forgotten:
                    to.sendall(part)
