"""A real nginx with the committed policy, before any server of this machine.

with Proxy(tmp_path, chroma.port) as proxy:
    open_server(parse_server(proxy.base), "curated")
proxy.told()        # what it logged: refused and failed calls
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lessons_loop.deploy.policy import POLICY, adapted_policy, nginx_command
from lessons_loop.deploy.processes import free_port
from lessons_loop.filter.server import DEFAULT_TENANT
from support.processes import soon

_LIMIT = re.compile(r"\b((?:client|proxy|send)_(?:\w+_)?timeout) [\d.]+m?s;")
_RULE = re.compile(r'^ +"~\^((?:GET|POST) .+) HTTP/1\\\.1\$" (/\w+);$', re.MULTILINE)


def rules() -> list[tuple[str, str]]:
    """Return what the policy lets through to Chroma: a pattern of `METHOD path`, its location."""
    found = _RULE.findall(POLICY.read_text("utf-8"))
    return [(pattern, place) for pattern, place in found if place != "/up"]


def allowed(tenant: str = "[^/]+") -> re.Pattern[str]:
    """Return the policy's rules as one pattern of `METHOD path`."""
    patterns = (re.sub(r"\(\?<\w+>", "(?:", pattern) for pattern, _ in rules())
    return re.compile("|".join(patterns).replace(DEFAULT_TENANT, tenant))


def unhurried(rules: str) -> str:
    """Return the rules with time limits a busy machine keeps."""
    return _LIMIT.sub(r"\1 60s;", rules)


class Proxy:
    """nginx on a port that stays the same over restarts."""

    def __init__(
        self,
        folder: Path,
        upstream: int,
        *,
        tenant: str = DEFAULT_TENANT,
        port: int = 0,
        patient: bool = True,
    ) -> None:
        """`patient`: with time limits a busy machine keeps, else with the committed ones."""
        self.port, self.folder = port or free_port(), folder / "nginx"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._conf, self._log = self.folder / "nginx.conf", self.folder / "out.log"
        rules = adapted_policy(self.port, upstream, self.folder, tenant, POLICY)
        self._conf.write_text(unhurried(rules) if patient else rules, "utf-8")
        self.running: subprocess.Popen[bytes] | None = None

    @property
    def base(self) -> str:
        """Return its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start it and wait until it listens; it ends with these tests, however they end."""
        leash = [sys.executable, "-m", "lessons_loop.deploy.leash", str(os.getpid())]
        command = [*leash, *nginx_command(self._conf)]
        with self._log.open("ab") as log, (self.folder / "err.log").open("ab") as errors:
            self.running = subprocess.Popen(command, stdout=log, stderr=errors)
        soon(self._listens, pause=0.05)
        return self

    def _listens(self) -> bool:
        assert self.running and self.running.poll() is None, self.log_text()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        """End it at once, its workers too."""
        if self.running is not None:
            self.running.send_signal(signal.SIGTERM)
            self.running.wait(60)
            self.running = None

    def told(self) -> list[dict[str, Any]]:
        """Return its log lines so far."""
        lines = self._log.read_text("utf-8", "replace").splitlines()
        return [json.loads(line) for line in lines]

    def log_text(self) -> str:
        """Return everything it wrote."""
        return self._log.read_text("utf-8", "replace") + (self.folder / "err.log").read_text(
            "utf-8", "replace"
        )

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it."""
        self.stop()


def send_raw(port: int, request: bytes, seconds: float = 30.0) -> bytes:
    """Return all that comes back for these bytes, until the server closes or is silent so long."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as wire:
        wire.sendall(request)
        try:
            while part := wire.recv(65536):
                answer += part
        except (TimeoutError, ConnectionResetError):
            pass
    return answer


def statuses(answer: bytes) -> list[int]:
    """Return the status of each answer on a connection."""
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]
