"""One measurement of `lessons up --baseline`, a process of its own: its last line is the outcome.

    python -m lessons_loop.deploy.evaluation.baseline_run baseline 3 STATE

The agent comes from LESSONS_EVAL_*, the store from LESSONS_STORE, as for `lessons eval run`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from lessons_loop.deploy.evaluation.setup import harness_source
from lessons_loop.eval.question_set import questions_folder, read_question_set
from lessons_loop.eval.report.comparison import finish_run, history_line
from lessons_loop.eval.runs.command import evaluate
from lessons_loop.eval.runs.folder import RunFolder
from lessons_loop.eval.runs.history import append_history, read_history
from lessons_loop.eval.runs.record import Evaluation
from lessons_loop.eval.runs.runner import MAX_UNJUDGED, RunPlan, require_judged
from lessons_loop.eval.runs.setup import AgentSettings, open_grader
from lessons_loop.eval.shelf import copied_set, known_texts
from lessons_loop.eval.showing import percent
from lessons_loop.eval.trials import Arm
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.store import first_line
from lessons_loop.promote.clock import stamp, utc_now
from lessons_loop.promote.embedding.embedders import parse_embedding

DOMAIN = "sql"
ARMS = {"baseline": (Arm.OFF,), "after": (Arm.OFF, Arm.ON)}
WORKERS = 2
"""Open WebUI starts meanwhile."""


def measure(kind: str, runs: int, state: Path, environ: Mapping[str, str]) -> str:
    """Measure, add to the domain's history, return one line; raise LessonsError.

    A baseline is taken once: of a store that has had lessons already it would be none.
    """
    if kind == "baseline" and (known := earlier(state)):
        return f"baseline of {known} kept: it was taken before the first seeds"
    questions = read_question_set(questions_folder(DOMAIN))
    settings = AgentSettings.from_environment(environ)
    embedder = parse_embedding(environ.get("LESSONS_EMBEDDING", ""), environ)
    remembering = known_texts(embedder) if embedder is not None else None
    lessons = copied_set(environ.get("LESSONS_STORE", ""), DOMAIN, state, remembering)
    if kind == "baseline" and lessons.lessons:
        raise LessonsError(f"the store holds {len(lessons.lessons)} lessons already")
    folder = RunFolder(state / "eval" / DOMAIN / stamp(utc_now()))
    wish = Evaluation(
        plan=RunPlan(questions, ARMS[kind], runs),
        source=harness_source(settings),
        grader=open_grader(settings),
        judge="",
        lessons=lessons if lessons.lessons else None,
        embedder=remembering,
        folder=folder,
        command={},
        questions_folder=DOMAIN,
        workers=WORKERS,
    )
    require_judged(evaluate(wish), MAX_UNJUDGED)
    report = finish_run(folder, state)
    line = history_line(report, kind, at=str(folder.settings()["ended"]))
    append_history(state, line)
    return told(kind, {name: arm.rate for name, arm in line.arms.items()}, line.verdict)


def earlier(state: Path) -> str:
    """Return when the domain's baseline was taken, empty where there is none."""
    taken = [line.at for line in read_history(state, DOMAIN) if line.kind == "baseline"]
    return taken[0] if taken else ""


def told(kind: str, rates: Mapping[str, float | None], verdict: str) -> str:
    """Return the outcome as one line."""
    arms = ", ".join(f"{arm} {percent(rate)}" for arm, rate in rates.items())
    last = f": {verdict}" if verdict else ""
    return f"measured ({kind}): {arms} of the {DOMAIN} questions pass{last}; `lessons eval history`"


def main(arguments: Sequence[str]) -> int:
    """Measure and print the outcome as the last line; 1 with the reason."""
    kind, runs, state = arguments
    try:
        print(measure(kind, int(runs), Path(state), os.environ), flush=True)
    except LessonsError as error:
        print(first_line(error), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
