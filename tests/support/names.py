"""A name server in a cluster's namespace that answers nothing and notes what it is asked."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

_PROGRAM = """
import socket, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
print("up", flush=True)
with open(sys.argv[1], "a") as note:
    while True:
        asked, sender = server.recvfrom(2000)
        parts, at = [], 12
        while asked[at]:
            parts.append(asked[at + 1 : at + 1 + asked[at]].decode("latin-1"))
            at += 1 + asked[at]
        print(".".join(parts), file=note, flush=True)
        server.sendto(asked[:2] + b"\\x81\\x83" + asked[4:], sender)
"""


class NameServer:
    """Answers "no such name"."""

    def __init__(self, inside: Sequence[str]) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.note = Path(self.folder.name) / "names"
        self.note.touch()
        words = [*inside, sys.executable, "-c", _PROGRAM, str(self.note)]
        self.running = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self.running.stdout and self.running.stdout.readline() == "up\n"

    def names(self) -> list[str]:
        """Return what was asked for so far."""
        return self.note.read_text().splitlines()

    def __enter__(self) -> Self:
        """Return itself: it runs."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.running.kill()
        self.running.communicate()
        self.folder.cleanup()
