"""What `lessons doctor` finds, and probes that run side by side and all end in time."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from lessons_loop.filter.errors import LessonsError

POLL_SECONDS = 0.2


class Level(StrEnum):
    """How bad it is; only a problem makes the exit code 1."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    NOT_CHECKED = "not checked"


class Finding(NamedTuple):
    """One thing checked."""

    check: str
    level: Level
    text: str
    remedy: str = ""
    """A command or a setting; empty where the text says it or nothing is wrong."""


@dataclass(frozen=True)
class Answer:
    """What a probe brought back: a value, or why there is none."""

    value: Any = None
    error: str = ""
    late: bool = False
    """Whether the time limit was reached."""


class Probe(NamedTuple):
    """One look at the outside world."""

    name: str
    look: Callable[[], Any]
    seconds: float


def run_probes(
    probes: Iterable[Probe],
    waiting: Callable[[list[str]], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Answer]:
    """Run all probes at once and return their answers; slow ones are left behind.

    `waiting` is told now and then which are still out. A probe that raises anything but an
    error of ours tells its type only: the text may hold a secret.
    """
    started = {probe.name: (probe, clock()) for probe in probes}
    arrived: queue.SimpleQueue[tuple[str, Answer]] = queue.SimpleQueue()
    for probe, _ in started.values():
        threading.Thread(target=_run, args=(probe, arrived), name="probe", daemon=True).start()
    answers: dict[str, Answer] = {}
    while missing := [name for name in started if name not in answers]:
        try:
            name, answer = arrived.get(timeout=POLL_SECONDS)
            answers.setdefault(name, answer)
            continue
        except queue.Empty:
            waiting(missing)
        for name in missing:
            probe, since = started[name]
            if clock() - since > probe.seconds:
                answers[name] = Answer(error=f"took longer than {probe.seconds:.0f} s", late=True)
    return {name: answers[name] for name in started}


def _run(probe: Probe, arrived: queue.SimpleQueue[tuple[str, Answer]]) -> None:
    try:
        arrived.put((probe.name, Answer(probe.look())))
    except LessonsError as error:
        arrived.put((probe.name, Answer(error=str(error))))
    except BaseException as error:  # chromadb's core panics with a BaseException
        arrived.put((probe.name, Answer(error=f"failed: {type(error).__name__}")))


def unanswered(check: str, answer: Answer, remedy: str = "") -> Finding:
    """Return the finding for a probe without a value: late is not checked, else a problem."""
    level = Level.NOT_CHECKED if answer.late else Level.PROBLEM
    return Finding(check, level, answer.error, remedy)


def counted(findings: Iterable[Finding]) -> Mapping[Level, int]:
    """Return how many findings there are of each level."""
    counts = dict.fromkeys(Level, 0)
    for finding in findings:
        counts[finding.level] += 1
    return counts
