"""Test tools for judgement: an embedding server, sightings, the commands run for real."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Self

from lessons_loop.filter.embed import Purpose
from lessons_loop.filter.models import Candidate
from support.gate import HashEmbedder, candidate

ROOT = Path(__file__).parents[2]
SOUND = "Look serials up in equipment_machine by serial_key."
OTHER = "Bound telemetry_hours by day_key for the trailing 12 months."


def sightings(text: str, users: int, **fields: Any) -> list[Candidate]:
    """Return one lesson as seen by so many users, each in a chat of their own."""
    return [
        candidate(text, message=f"{text}-{n}", user=f"user-{n}", chat=f"chat-{text}-{n}", **fields)
        for n in range(users)
    ]


class EmbeddingServer:
    """An OpenAI-compatible embedding endpoint over the test embedder."""

    def __init__(self, dimension: int = 256) -> None:
        embedder = HashEmbedder(dimension)

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
                rows = embedder.embed(texts, Purpose.DOCUMENT).tolist()
                found = [{"index": n, "embedding": row} for n, row in enumerate(rows)]
                content = json.dumps({"data": found}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)

    @property
    def setting(self) -> str:
        return f"openai:test@http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def environment(store: Path, **more: str) -> dict[str, str]:
    """Return an environment without any setting of ours but the store."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("LESSONS_")}
    return kept | {"LESSONS_STORE": str(store), "NO_COLOR": "1"} | more


def run_command(
    *arguments: str, env: Mapping[str, str], script: str = "-m"
) -> subprocess.CompletedProcess[str]:
    """Run `lessons` (or the script given by path) without a terminal."""
    start = ["-m", "lessons_loop.deploy.cli"] if script == "-m" else [script]
    return subprocess.run(
        [sys.executable, *start, *arguments],
        env=dict(env),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def at_terminal(*arguments: str, env: Mapping[str, str], keys: list[str]) -> tuple[int, str]:
    """Run `lessons` at a real pseudo terminal; each of `keys` answers one prompt."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "lessons_loop.deploy.cli", *arguments],
        env=dict(env),
        cwd=ROOT,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(slave)
    seen, answered, deadline = "", 0, time.monotonic() + 120
    waiting = list(keys)
    while time.monotonic() < deadline:
        if select.select([master], [], [], 0.2)[0]:
            try:
                piece = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            seen += piece.decode("utf-8", "replace")
        elif process.poll() is not None:
            break
        if waiting and seen[answered:].rstrip(" ").endswith((")", ":", "]")) and seen[-1] == " ":
            answered = len(seen)
            os.write(master, waiting.pop(0).encode())
    code = process.wait(timeout=30)
    os.close(master)
    return code, seen


def _take_terminal() -> None:
    """Make the pseudo terminal the controlling one, so that Ctrl-C arrives as a signal."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
