"""Answer from a run's record: the harness's own agent again, and no model asked.

The agent builds every request anew, from the lessons that were recalled, and runs its tool
loop; the record gives the model's replies and the tools' results. A request that differs from
the recorded one by a byte is "not recorded".

Covered: no model, no store, no tool and no embedding is needed. Not covered: seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from lessons_loop.eval.question_set import EvalQuestion
from lessons_loop.eval.runs.folder import RunFolder
from lessons_loop.eval.trials import Agent, Answer, Arm, Trial, trial_seed
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.models import Curated

NOT_RECORDED = "not recorded: this question was never asked in this arm and run"


class _Now:
    """The trial that is replayed in this thread, and how many of its tool calls are through."""

    def __init__(self, trial: Trial, recalled: tuple[Curated, ...]) -> None:
        self.trial, self.recalled, self.calls = trial, recalled, 0


_now: ContextVar[_Now] = ContextVar("_now")


class RecordedShelf:
    """Recalls what was recalled then."""

    def recalled(self, messages: Sequence[Mapping[str, Any]]) -> tuple[Curated, ...]:
        """Return the lessons of the question that is replayed."""
        return _now.get().recalled


class RecordedTools:
    """Tools that give what they gave then, call by call."""

    def __init__(self, specs: list[dict[str, Any]]) -> None:
        self.specs = specs

    def call(self, name: str, arguments: str) -> tuple[str, bool]:
        """Return the recorded result of the trial's next call."""
        now = _now.get()
        calls = now.trial.answer.calls[now.calls :]
        now.calls += 1
        if not calls or (calls[0].tool, calls[0].arguments) != (name, arguments):
            return '{"error": "not recorded"}', True
        return calls[0].result, calls[0].failed


class ReplayedAgent:
    """An agent that answers recorded trials again."""

    def __init__(
        self,
        agent: Agent,
        trials: Mapping[tuple[str, Arm, int], Trial],
        recalled: Mapping[str, tuple[Curated, ...]],
        name: str,
    ) -> None:
        """Take the trials by question, arm and request seed."""
        self.name = name
        self._agent, self._trials, self._recalled = agent, trials, recalled

    def answer(self, question: EvalQuestion, arm: Arm, seed: int) -> Answer:
        """Return the answer the recorded replies make; an outage stays one."""
        trial = self._trials.get((question.id, arm, seed))
        if trial is None:
            return Answer(outage=NOT_RECORDED)
        if trial.answer.outage:
            return trial.answer
        told = _now.set(_Now(trial, self._recalled.get(question.id, ())))
        try:
            return self._agent.answer(question, arm, seed)
        finally:
            _now.reset(told)


@contextmanager
def replayed_harness(folder: RunFolder) -> Iterator[ReplayedAgent]:
    """Yield the harness's agent on a run's record; raise LessonsError where there is none."""
    from lessons_loop.eval.agent.http import HarnessAgent
    from lessons_loop.eval.agent.wire import ReplayWire

    settings = folder.settings()
    if not folder.exchanges_file.is_file():
        raise LessonsError(
            f"{folder.path} holds no recording: it has no {folder.exchanges_file.name}"
        )
    specs = recorded_specs(folder)
    tools: Any = RecordedTools(specs) if specs else None
    shelf: Any = RecordedShelf()
    model = str(settings.get("agent", {}).get("model", ""))
    system = str(settings.get("agent", {}).get("system", ""))
    agent = HarnessAgent(ReplayWire(folder.path), model, shelf, tools, system)
    lessons, keys = folder.kept_lessons()
    recalled = {name: tuple(lessons[key] for key in of) for name, of in keys.items()}
    base = int(settings.get("seed", 0))
    trials = {
        (one.question, one.arm, trial_seed(base, one.question, one.arm, one.run)): one
        for one in folder.trials()
    }
    yield ReplayedAgent(agent, trials, recalled, f"{model}, recorded in {folder.path.name}")


def recorded_specs(folder: RunFolder) -> list[dict[str, Any]]:
    """Return the tools as the first recorded request offered them; raise LessonsError."""
    with folder.exchanges_file.open("rb") as lines:
        for line in lines:
            try:
                body = json.loads(line)["request"]
            except (ValueError, KeyError, TypeError):
                continue
            return list(body.get("tools") or [])
    return []
