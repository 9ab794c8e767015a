"""What `lessons eval run` does once its agent is known: note, ask, grade, compare, tell.

Covered: the store is read on a throw-away copy and keeps every byte; whatever ends the run
early keeps what is graded and names the command that goes on.
Not covered: where the agent comes from (see `setup`, and deploy for Open WebUI and the demo).
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from lessons_loop.eval.question_set import QuestionSet
from lessons_loop.eval.runs.folder import RunFolder
from lessons_loop.eval.runs.opening import opening, say
from lessons_loop.eval.runs.progress_line import ProgressLine
from lessons_loop.eval.runs.record import Evaluation, record_of
from lessons_loop.eval.runs.resume import drop_unfinished
from lessons_loop.eval.runs.runner import RunStopped, run_trials
from lessons_loop.eval.runs.sets import recalled_by
from lessons_loop.eval.shelf import Shelf
from lessons_loop.eval.trials import Trial
from lessons_loop.filter.models import Curated
from lessons_loop.promote.clock import iso, utc_now
from lessons_loop.promote.quiet import busy


def evaluate(wish: Evaluation, now: Callable[[], datetime] = utc_now) -> list[Trial]:
    """Run it and return its trials; raise LessonsError, KeyboardInterrupt.

    RunStopped names the command that goes on. The share of unjudged answers is not looked at.
    """
    folder = wish.folder
    with folder.held():
        with busy("recalling lessons for each question"):
            recalled = _recalled(wish)
        settings = record_of(wish, recalled, now)
        if not folder.begin(settings):
            settings = folder.settings()
            drop_unfinished(folder, wish.plan)
        if not folder.lessons_file.exists():
            folder.keep_questions(wish.plan.questions)
            folder.keep_lessons(_distinct(recalled), {k: _keys(v) for k, v in recalled.items()})
        before = folder.trials()
        begun = _answered(before)
        say(opening(wish, settings, begun), err=wish.quiet)
        trials = _asked(wish, begun)
        if wish.judged_later is not None:
            _judge_by_hand(wish.judged_later, wish)
            trials = folder.trials()
        if folder.trials() != before or "ended" not in settings:
            model = settings["model"] or next((one.answer.model for one in trials), "")
            folder.write_settings({**settings, "model": model, "ended": iso(now())})
    return trials


def _answered(trials: Sequence[Trial]) -> int:
    return sum(not one.answer.outage for one in trials)


def _judge_by_hand(judge: Callable[[RunFolder, QuestionSet], None], wish: Evaluation) -> None:
    try:
        judge(wish.folder, wish.plan.questions)
    except KeyboardInterrupt:
        print(f"lessons: go on grading with {go_on(wish)}", file=sys.stderr)
        raise


def _asked(wish: Evaluation, begun: int) -> list[Trial]:
    folder, source = wish.folder, wish.source
    line = ProgressLine(sys.stderr, begun)
    try:
        with source.opened(wish.lessons, folder, wish.embedder) as agent:
            trials = run_trials(
                wish.plan, agent, wish.grader, folder, wish.workers, line, max_unjudged=1.0
            )
            line.end()
            say([f"note: {note}" for note in getattr(agent, "notes", ())], err=wish.quiet)
            return trials
    except RunStopped as error:
        raise RunStopped(f"{error}; go on with {go_on(wish)}") from None
    except KeyboardInterrupt:
        line.end()
        done = _answered(folder.trials())
        told = f"interrupted, {done} of {wish.plan.total} answers are kept: go on with"
        print(f"lessons: {told} {go_on(wish)}", file=sys.stderr)
        raise
    finally:
        line.end()


def go_on(wish: Evaluation) -> str:
    """Return the command that finishes a run."""
    return f"`{wish.goes_on} {shlex.quote(str(wish.folder.path))}`"


def _recalled(wish: Evaluation) -> dict[str, tuple[Curated, ...]]:
    if wish.source.kept is not None:
        lessons, keys = wish.source.kept
        return {name: tuple(lessons[key] for key in of) for name, of in keys.items()}
    if wish.lessons is None or not (wish.lessons.lessons and wish.source.recalls):
        return {}
    return recalled_by(Shelf(wish.lessons, wish.embedder), wish.plan.questions)


def _keys(lessons: Sequence[Curated]) -> list[str]:
    return [one.key for one in lessons]


def _distinct(recalled: Mapping[str, Sequence[Curated]]) -> list[Curated]:
    found = {one.key: one for lessons in recalled.values() for one in lessons}
    return [found[key] for key in sorted(found)]
