"""Test tools for statistics and reports: trials written as counts, a run on disk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from lessons_loop.eval.runs.folder import RunFolder
from lessons_loop.eval.trials import Answer, Arm, Grade, Trial

MARKS = {"+": Grade.PASS, "-": Grade.FAIL, "?": Grade.UNJUDGED}


def trials_of(
    question: str, topic: str = "hours", *, control: bool = False, **arms: str
) -> list[Trial]:
    """Return one question's trials; `off="+-?"` is passed, failed, unjudged in runs 1 to 3."""
    return [
        Trial(
            question=question,
            topic=topic,
            control=control,
            arm=Arm(name.replace("_", "-")),
            run=run,
            answer=Answer(outage="no answer within 2 s") if mark == "?" else Answer(text="42"),
            grade=MARKS[mark],
            why="no answer within 2 s" if mark == "?" else "",
        )
        for name, marks in arms.items()
        for run, mark in enumerate(marks, 1)
    ]


def many(
    count: int, topics: int = 14, start: int = 0, *, control: bool = False, **arms: str
) -> list[Trial]:
    """Return `count` questions that all went so."""
    numbers = range(start, start + count)
    return [
        trial
        for n in numbers
        for trial in trials_of(f"q{n}", f"t{n % topics}", control=control, **arms)
    ]


def mirrored(trials: Iterable[Trial]) -> Iterator[Trial]:
    """Yield the trials with on and off changed over."""
    other = {Arm.ON: Arm.OFF, Arm.OFF: Arm.ON}
    for trial in trials:
        yield trial.model_copy(update={"arm": other.get(trial.arm, trial.arm)})


def settings(**known: Any) -> dict[str, Any]:
    """Return a run.json."""
    return {
        "begun": "2026-11-30T08:00:00Z",
        "domain": "sql",
        "arms": ["off", "on"],
        "runs": 3,
        "margin": 0.05,
        "seed": 7,
        "smallest_lift": 0.205,
        "stand_in": False,
        "questions": {"name": "sql", "digest": "ab" * 32, "count": 60, "controls": 0, "topics": 14},
        "agent": {"model": "example-model", "url": "http://127.0.0.1:9/v1"},
        "lessons": {"domain": "sql", "count": 12, "digest": "cd" * 32, "rev": 4},
        "judge": "",
        **known,
    }


def run_on_disk(path: Path, trials: Sequence[Trial], **known: Any) -> RunFolder:
    """Return a run's folder that holds these trials."""
    path.mkdir(parents=True, exist_ok=True)
    folder = RunFolder(path)
    folder.settings_file.write_text(json.dumps(settings(**known)), "utf-8")
    lines = "".join(trial.model_dump_json() + "\n" for trial in trials)
    folder.trials_file.write_text(lines, "utf-8")
    return folder
