"""Child processes of a local run: started in their own group, watched, stopped together."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import requests

from lessons_loop.filter.errors import LessonsError

LOOPBACK = "127.0.0.1"
LOOPBACK_NAMES = (LOOPBACK, "localhost", "::1")
POLL_SECONDS = 0.2
STOP_SECONDS = 10.0
OWN_PORTS = range(20_000, 30_000)


class StartError(LessonsError):
    """A process of the local run did not start, or ended on its own."""


@dataclass(frozen=True)
class Child:
    """One started process and the file its output goes to."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        """Process id; also the id of its process group."""
        return self.process.pid

    def ended(self) -> int | None:
        """Return the exit code, None while it runs."""
        return self.process.poll()

    def require_running(self) -> None:
        """Raise StartError with the log's last line when the process has ended."""
        if (code := self.ended()) is not None:
            raise StartError(
                f"{self.name} ended with code {code}: {last_line(self.log)} (log: {self.log})"
            )

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """End the whole group: politely, after `seconds` by force; safe to repeat."""
        signal_group(self.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        signal_group(self.pid, signal.SIGKILL)
        self.process.wait(seconds)

    def kill(self) -> None:
        """End the whole group at once, as a crash would."""
        signal_group(self.pid, signal.SIGKILL)
        self.process.wait(STOP_SECONDS)


def signal_group(group: int, number: signal.Signals) -> None:
    """Signal a process group; one that is gone is no error."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return


def start(
    name: str,
    command: Sequence[str],
    log: Path,
    environment: Mapping[str, str],
    folder: Path,
    kept: Sequence[int] = (),
) -> Child:
    """Start a command in its own group, on a leash; raise StartError.

    `kept` are open files it keeps as well: a lock on one is held until it has ended.
    """
    leash = [sys.executable, "-m", "lessons_loop.deploy.leash", str(os.getpid()), *command]
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with log.open("ab") as output:
            process = subprocess.Popen(
                leash,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                env=dict(environment),
                start_new_session=True,
                pass_fds=kept,
            )
    except OSError as error:
        raise StartError(f"{name} cannot be started: {error}") from None
    return Child(name, process, log)


def last_line(log: Path) -> str:
    """Return the log's last line that says something, cut to 200 characters."""
    try:
        lines = log.read_text("utf-8", errors="replace")[-4000:].splitlines()
    except OSError:
        return "no log"
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "empty log")


def loopback_session() -> requests.Session:
    """Return a session that ignores proxies: everything here is on this machine."""
    session = requests.Session()
    session.trust_env = False
    return session


def session_for(url: str) -> requests.Session:
    """Return a session that ignores proxies where the URL is on this machine."""
    local = urlsplit(url).hostname in LOOPBACK_NAMES
    return loopback_session() if local else requests.Session()


def wait_for_url(child: Child, url: str, seconds: float) -> float:
    """Wait until `url` answers 200; return the seconds it took.

    Raises StartError at once when the process ends, and after `seconds`.
    """
    began = time.monotonic()
    session = loopback_session()
    while time.monotonic() - began < seconds:
        child.require_running()
        if answers(session, url):
            return time.monotonic() - began
        time.sleep(POLL_SECONDS)
    raise StartError(
        f"{child.name} was not ready after {seconds:.0f} s:"
        f" {last_line(child.log)} (log: {child.log})"
    )


def wait_for_exit(child: Child, seconds: float) -> None:
    """Wait until the process ends well; raise StartError when it fails or takes too long."""
    try:
        code = child.process.wait(seconds)
    except subprocess.TimeoutExpired:
        raise StartError(f"{child.name} did not end within {seconds:.0f} s") from None
    finally:
        child.stop()
    if code:
        raise StartError(f"{last_line(child.log)} ({child.name} ended with code {code})")


def answers(session: requests.Session, url: str) -> bool:
    """Tell whether `url` answers 200 within two seconds."""
    try:
        return session.get(url, timeout=2).status_code == 200
    except requests.RequestException:
        return False


def free_port() -> int:
    """Return a loopback port nobody listens on now.

    Below those the kernel hands out by itself: one of them may be given away before its server
    listens, which for Open WebUI takes 25 s.
    """
    for port in random.SystemRandom().sample(OWN_PORTS, 50):
        if port_is_free(port):
            return port
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def port_is_free(port: int) -> bool:
    """Tell whether a loopback port can be bound."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


@contextmanager
def stopping(children: list[Child]) -> Iterator[list[Child]]:
    """Stop every child in the list, the last started first, however the block ends."""
    try:
        yield children
    finally:
        for child in reversed(children):
            child.stop()
