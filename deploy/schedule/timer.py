"""Write the timer that runs the gate: systemd units, or a launchd agent on macOS. Pure.

Secrets stand in a private file of their own, never in a unit. A time zone other than the
host's is systemd's part (OnCalendar takes one); launchd knows the host's zone only.
"""

from __future__ import annotations

import plistlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lessons_loop.filter.errors import LessonsError

NAME = "lessons-gate"
LABEL = "local.lessons.gate"
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_AT = re.compile(r"(?:(mon|tue|wed|thu|fri|sat|sun)[a-z]*\s+)?([01]?\d|2[0-3]):([0-5]\d)", re.I)
PASSED_ON = (
    "LESSONS_ALLOW_HOSTS",
    "LESSONS_CHROMA_TOKEN",
    "LESSONS_EMBEDDING",
    "LESSONS_EMBEDDING_DOCUMENT_PREFIX",
    "LESSONS_EMBEDDING_KEY",
    "LESSONS_EMBEDDING_QUERY_PREFIX",
    "LESSONS_EVAL_API_KEY",
    "LESSONS_EVAL_DATABASE",
    "LESSONS_EVAL_MODEL",
    "LESSONS_EVAL_TOOLS",
    "LESSONS_EVAL_TOOL_VALVES",
    "LESSONS_EVAL_URL",
    "LESSONS_KEEP_USES",
    "LESSONS_LLM_API_KEY",
    "LESSONS_LLM_MODEL",
    "LESSONS_LLM_URL",
    "LESSONS_NOTIFY_URL",
    "LESSONS_SALT",
)
"""Variables of the shell that installs which the timer's runs get too, where they are set."""


class When(NamedTuple):
    """When the gate runs."""

    day: str
    """`Sun`; empty: daily."""
    hour: int
    minute: int
    zone: str = ""
    """An IANA name; empty: the host's."""

    @property
    def calendar(self) -> str:
        """Return it as systemd's OnCalendar."""
        parts = (self.day, "*-*-*", f"{self.hour:02}:{self.minute:02}:00", self.zone)
        return " ".join(part for part in parts if part)

    @property
    def told(self) -> str:
        """Return it for people."""
        how = f"every {self.day}" if self.day else "every day"
        zone = self.zone or "the host's time"
        return f"{how} at {self.hour:02}:{self.minute:02}, {zone}"


@dataclass(frozen=True)
class Job:
    """What runs, and when."""

    when: When
    commands: tuple[tuple[str, ...], ...]
    """Absolute program and arguments, one run a domain, in order; no secrets."""
    state: Path
    environment: Mapping[str, str]
    """For the private file."""


def parse_when(at: str, zone: str) -> When:
    """Return a time such as `Sun 03:00` or `03:00`; raise LessonsError."""
    found = _AT.fullmatch(at.strip())
    if not found:
        raise LessonsError(f"--at {at[:40]!r} is no time: give `Sun 03:00`, or `03:00` for daily")
    zone = zone.strip()
    if zone:
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise LessonsError(
                f"--tz {zone[:40]!r} is no time zone: give a name such as Europe/Berlin"
            ) from None
    day = (found[1] or "").title()
    return When(day, int(found[2]), int(found[3]), zone)


def service_unit(job: Job, environment: Path) -> str:
    """Return the systemd service; a run that fails ends it."""
    runs = "\n".join(f"ExecStart={' '.join(map(_quoted, words))}" for words in job.commands)
    return f"""\
# written by `lessons schedule install`
[Unit]
Description=Lessons gate: judges the candidates once
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
EnvironmentFile={_path(environment)}
{runs}
UMask=0077
NoNewPrivileges=true
TimeoutStartSec=2h
"""


def timer_unit(job: Job) -> str:
    """Return the systemd timer; a run missed while the host was off is caught up with."""
    return f"""\
# written by `lessons schedule install`
[Unit]
Description=Lessons gate: {job.when.told}

[Timer]
OnCalendar={job.when.calendar}
Persistent=true

[Install]
WantedBy=timers.target
"""


def environment_file(environment: Mapping[str, str]) -> str:
    """Return the private file of variables, as systemd reads it; raise LessonsError."""
    lines = ["# written by `lessons schedule install`; holds secrets, for its owner only"]
    for name, value in sorted(environment.items()):
        if any(ord(sign) < 32 for sign in value):
            raise LessonsError(f"{name} holds a control character: it cannot be passed on")
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
        lines.append(f'{name}="{escaped.replace("`", chr(92) + "`")}"')
    return "\n".join(lines) + "\n"


def launch_agent(job: Job, environment: Path) -> bytes:
    """Return the launchd agent: a shell reads the private file, then becomes the gate."""
    runs = " && ".join(shlex.join(words) for words in job.commands)
    script = f"set -a; . {shlex.quote(str(environment))}; set +a; {runs}"
    when = {"Hour": job.when.hour, "Minute": job.when.minute}
    if job.when.day:
        when["Weekday"] = (DAYS.index(job.when.day) + 1) % 7
    return plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": ["/bin/sh", "-c", script],
            "StartCalendarInterval": when,
            "StandardOutPath": str(job.state / "schedule.log"),
            "StandardErrorPath": str(job.state / "schedule.log"),
            "Umask": 0o077,
        }
    )


def _path(path: Path) -> str:
    """Return a path where systemd expands `%` and takes quotes for letters."""
    return str(path).replace("%", "%%")


def _quoted(word: str) -> str:
    """Return a word for ExecStart; `%` and `$` would be expanded there."""
    plain = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return plain if re.fullmatch(r"[\w@:/.,+=-]+", plain) else f'"{plain}"'


def gate_command(program: Sequence[str], options: Sequence[str]) -> tuple[str, ...]:
    """Return the command line of an unattended run; raise LessonsError."""
    words = (*program, "promote", "--unattended", *options)
    if any(ord(sign) < 32 for word in words for sign in word):
        raise LessonsError("a control character cannot stand in a timer's command")
    return words
