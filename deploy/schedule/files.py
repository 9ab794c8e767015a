"""Put the timer's files where systemd or launchd reads them, start it, look at it, remove it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lessons_loop.deploy.schedule.timer import (
    LABEL,
    NAME,
    Job,
    environment_file,
    launch_agent,
    service_unit,
    timer_unit,
)
from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.files import file_errors, write_atomic

SECONDS = 30.0
"""Limit of each call of systemctl or launchctl."""


@dataclass(frozen=True)
class Place:
    """Where the files of one host or user lie, and what starts them."""

    units: Path
    environment: Path
    system: bool = False
    launchd: bool = False

    @property
    def files(self) -> tuple[Path, ...]:
        """Return what an install writes; the private file last."""
        if self.launchd:
            return (self.units / f"{LABEL}.plist", self.environment)
        names = (f"{NAME}.service", f"{NAME}.timer")
        return (*(self.units / name for name in names), self.environment)

    def contents(self, job: Job) -> dict[Path, bytes]:
        """Return what the files shall hold; raise LessonsError."""
        private = environment_file(job.environment).encode()
        if self.launchd:
            texts = [launch_agent(job, self.environment), private]
        else:
            service = service_unit(job, self.environment).encode()
            texts = [service, timer_unit(job).encode(), private]
        return dict(zip(self.files, texts, strict=True))

    @property
    def starting(self) -> list[list[str]]:
        """Return the commands that start the timer."""
        if self.launchd:
            return [self._launchctl("bootstrap", str(self.files[0]))]
        return [self._systemctl("daemon-reload"), self._systemctl("enable", "--now", TIMER)]

    @property
    def stopping(self) -> list[list[str]]:
        """Return the commands that end it."""
        if self.launchd:
            return [["launchctl", "bootout", f"gui/{os.getuid()}/{LABEL}"]]
        return [self._systemctl("disable", "--now", TIMER)]

    @property
    def looking(self) -> list[str]:
        """Return the command that tells of it."""
        if self.launchd:
            return ["launchctl", "print", f"gui/{os.getuid()}/{LABEL}"]
        return self._systemctl("show", TIMER, "-p", "ActiveState", "-p", "NextElapseUSecRealtime")

    def _systemctl(self, *words: str) -> list[str]:
        return ["systemctl", *(() if self.system else ("--user",)), *words]

    def _launchctl(self, verb: str, path: str) -> list[str]:
        return ["launchctl", verb, f"gui/{os.getuid()}", path]


TIMER = f"{NAME}.timer"


def find_place(system: bool, environ: Mapping[str, str], platform: str = sys.platform) -> Place:
    """Return where this host's files go; raise LessonsError where it knows neither."""
    home = Path(environ.get("HOME") or Path.home())
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    if platform == "darwin":
        if system:
            raise LessonsError("--system is systemd's: on macOS the agent is the user's")
        agents = home / "Library" / "LaunchAgents"
        return Place(agents, config / "lessons" / "gate.env", launchd=True)
    if not platform.startswith("linux"):
        raise LessonsError(f"no timer for {platform}: let its own scheduler run `lessons promote`")
    if system:
        return Place(Path("/etc/systemd/system"), Path("/etc/lessons/gate.env"), system=True)
    return Place(config / "systemd" / "user", config / "lessons" / "gate.env")


def write_files(contents: Mapping[Path, bytes]) -> list[Path]:
    """Write what differs and return it; raise StoreError. The private file is its owner's."""
    changed = []
    for path, content in contents.items():
        private = path.suffix == ".env"
        with file_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o755)
            same = path.exists() and path.read_bytes() == content
            if same and private:
                path.chmod(0o600)
        if not same:
            write_atomic(path, content, 0o600 if private else 0o644)
            changed.append(path)
    return changed


def remove_files(place: Place) -> list[Path]:
    """Delete what an install wrote, empty folders of ours too; raise StoreError."""
    gone = []
    for path in place.files:
        with file_errors(path):
            if path.exists():
                path.unlink()
                gone.append(path)
    if place.environment.parent.is_dir() and not any(place.environment.parent.iterdir()):
        with file_errors(place.environment.parent):
            place.environment.parent.rmdir()
    return gone


def run_all(commands: Sequence[Sequence[str]]) -> str:
    """Run commands in order; return what went wrong with the first that failed, "" if none."""
    for words in commands:
        done = run_one(words)
        if done is None or done.returncode:
            why = (done.stderr.strip().splitlines() or ["failed"])[0] if done else "cannot be run"
            return f"`{' '.join(words)}`: {why[:200]}"
    return ""


def run_one(words: Sequence[str]) -> subprocess.CompletedProcess[str] | None:
    """Run a command, None where it cannot be run or does not end in time."""
    try:
        return subprocess.run(
            list(words), capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
