"""What a run came to: its trials compared, its flips, its controls, what it could see.

Covered: all arms side by side, every flip by id, questions that pass without lessons, missing
grades, a run that is not at its end. Not covered: whether the questions are your users'.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lessons_loop.eval.runs.facts import RunFacts, read_facts
from lessons_loop.eval.runs.folder import OtherRun, RunFolder
from lessons_loop.eval.runs.history import HistoryLine, HistoryLines, read_history
from lessons_loop.eval.stats.arm_figures import ArmFigures, arm_figures
from lessons_loop.eval.stats.compare import Comparison, compare, lift_of
from lessons_loop.eval.stats.pairs import Effect, Pair, pairs_of
from lessons_loop.eval.stats.power import NEVER, smallest_visible_lift
from lessons_loop.eval.trials import Arm, Grade, Trial
from lessons_loop.promote.clock import iso, utc_now
from lessons_loop.promote.files import write_atomic

PRIMARY = (Arm.ON, Arm.OFF)
SHOWN = (PRIMARY, (Arm.PLACEBO, Arm.OFF), (Arm.OFF_AGAIN, Arm.OFF), (Arm.ON, Arm.PLACEBO))
"""Arms compared, the first against the second; one comparison is primary, the rest are controls."""


class Tally(NamedTuple):
    """A question in an arm."""

    passed: int
    judged: int
    unjudged: int

    @property
    def told(self) -> str:
        """Return passed of judged."""
        return f"{self.passed}/{self.judged}"


@dataclass(frozen=True)
class QuestionRow:
    """One question over all arms."""

    id: str
    topic: str
    control: bool
    arms: dict[Arm, Tally]
    pair: Pair | None
    """On against off; None where one of them has no grade."""

    @property
    def effect(self) -> Effect | None:
        """Return what lessons made of it."""
        return self.pair.effect if self.pair else None


class Asked(NamedTuple):
    """A question as the run kept it."""

    text: str
    """Each turn on a line of its own."""
    covered: bool = False
    """Whether seeds are said to help with it."""


class Part(NamedTuple):
    """On against off over a part of the questions proper."""

    name: str
    questions: int
    lift: float
    low: float
    high: float


@dataclass(frozen=True)
class Report:
    """A run, compared."""

    folder: Path
    facts: RunFacts
    trials: tuple[Trial, ...]
    arms: dict[Arm, ArmFigures]
    """Of the questions proper, in the order of `Arm`."""
    controls: dict[Arm, ArmFigures]
    comparisons: tuple[Comparison, ...]
    """The primary one first, where both of its arms were run."""
    control_comparisons: tuple[Comparison, ...]
    rows: tuple[QuestionRow, ...]
    smallest_lift: float
    """Least lift seen in 80 of 100 such runs, as stated before the run; 1: none."""
    asked: dict[str, Asked]
    """Questions by id, where the run kept them."""
    history: HistoryLines
    """What earlier runs of the domain found."""

    @property
    def name(self) -> str:
        """Return the folder's name."""
        return self.folder.name

    @property
    def primary(self) -> Comparison | None:
        """Return on against off, None where one of them was not run."""
        found = self.comparisons[0] if self.comparisons else None
        return found if found and (found.on_arm, found.off_arm) == PRIMARY else None

    @property
    def finished(self) -> bool:
        """Say whether every trial was made."""
        return len(self.trials) >= self.facts.expected

    @property
    def outages(self) -> int:
        """Return how many trials have no answer."""
        return sum(bool(one.answer.outage) for one in self.trials)

    @property
    def unjudged(self) -> int:
        """Return how many trials have no grade, controls and outages included."""
        return sum(one.grade is Grade.UNJUDGED for one in self.trials)

    @property
    def proper(self) -> list[QuestionRow]:
        """Return the questions that are no controls."""
        return [row for row in self.rows if not row.control]

    @property
    def pairs(self) -> list[Pair]:
        """Return on against off of the questions proper, where both have a grade."""
        return [row.pair for row in self.proper if row.pair]

    def flips(self, effect: Effect) -> list[QuestionRow]:
        """Return the questions proper that changed so, those of all runs first."""
        found = [row for row in self.proper if row.effect is effect]
        return sorted(found, key=lambda row: not (row.pair and row.pair.consistent))

    def parts(self) -> list[Part]:
        """Return the lift on questions that seeds cover and on the others; [] where all are one."""
        named: dict[str, list[Pair]] = {"covered by seeds": [], "not covered": []}
        for pair in self.pairs:
            kept = self.asked.get(pair.question)
            named["covered by seeds" if kept and kept.covered else "not covered"].append(pair)
        if not all(named.values()):
            return []
        lifts = {name: lift_of(mine, self.facts.seed) for name, mine in named.items()}
        return [Part(name, len(named[name]), lift, *span) for name, (lift, span) in lifts.items()]

    def lines(self) -> list[str]:
        """Return what people read, at most 80 columns wide."""
        from lessons_loop.eval.report.text import report_lines

        return report_lines(self)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values: figures and ids, no question's or answer's text."""
        from lessons_loop.eval.report.as_json import as_json

        return as_json(self)


def read_report(folder: RunFolder, state: Path | None = None) -> Report:
    """Return a run's report from its files; raise OtherRun, StoreError."""
    facts = read_facts(folder.settings())
    trials = folder.trials()
    if not trials:
        raise OtherRun(f"{folder.path} holds no trial yet: go on with its run")
    arms = [arm for arm in Arm if any(one.arm is arm for one in trials)]
    lift = facts.smallest_lift
    shown = list(_compared(trials, arms, facts, control=False))
    return Report(
        folder=folder.path.absolute(),
        facts=facts,
        trials=tuple(trials),
        arms={arm: arm_figures(trials, arm) for arm in arms},
        controls={arm: arm_figures(trials, arm, control=True) for arm in arms},
        comparisons=tuple(shown),
        control_comparisons=tuple(_compared(trials, arms, facts, control=True)),
        rows=tuple(_rows(trials)),
        smallest_lift=_computed_lift(trials, facts) if lift is None else lift,
        asked=read_asked(folder.questions_file),
        history=_history(folder.path.absolute(), facts, state),
    )


def finish_run(folder: RunFolder, state: Path | None = None) -> Report:
    """Write a run's report.json and report.html; return the report. Raises OtherRun, StoreError."""
    from lessons_loop.eval.report.page import render_page

    report = read_report(folder, state)
    write_atomic(folder.report_json, json.dumps(report.as_dict(), indent=2).encode())
    write_atomic(folder.report_html, render_page(report).encode("utf-8", "replace"))
    return report


def history_line(report: Report, kind: str = "run", at: str = "") -> HistoryLine:
    """Return what a domain's history keeps of a run; `at` is when it ended, by default now."""
    facts, found = report.facts, report.primary
    known = {"verdict": found.verdict, "lift": found.lift, "p": found.p} if found else {}
    bounds = {"low": found.low, "high": found.high} if found else {}
    told = {
        "at": at or iso(utc_now()),
        "kind": kind,
        "run": report.name,
        "domain": facts.domain,
        "questions": facts.question_set,
        "model": facts.model,
        "stand_in": facts.stand_in,
        "lessons": facts.lessons,
        "lesson_set": facts.lesson_set,
        "rev": facts.rev,
        "arms": {arm.value: figures for arm, figures in report.arms.items()},
    }
    return HistoryLine.model_validate(told | known | bounds)


def read_asked(path: Path) -> dict[str, Asked]:
    """Return the questions a run kept; none is no error."""
    try:
        found = json.loads(path.read_text("utf-8"))
        return {
            str(name): Asked(
                "\n".join(f"{one['role']}: {one['content']}" for one in row["messages"]),
                bool(row.get("covers")),
            )
            for name, row in found.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _compared(
    trials: Sequence[Trial], arms: Sequence[Arm], facts: RunFacts, *, control: bool
) -> Iterator[Comparison]:
    if control and not any(one.control for one in trials):
        return
    for on, off in SHOWN:
        if on in arms and off in arms:
            yield compare(trials, on, off, facts.margin, facts.seed, control=control)


def _rows(trials: Sequence[Trial]) -> Iterator[QuestionRow]:
    pairs = {one.question: one for one in pairs_of(trials)}
    pairs |= {one.question: one for one in pairs_of(trials, control=True)}
    groups: dict[str, list[Trial]] = {}
    for one in trials:
        groups.setdefault(one.question, []).append(one)
    for name in sorted(groups):
        mine = groups[name]
        arms = {arm: _tally(mine, arm) for arm in Arm if any(one.arm is arm for one in mine)}
        yield QuestionRow(name, mine[0].topic, mine[0].control, arms, pairs.get(name))


def _tally(trials: Sequence[Trial], arm: Arm) -> Tally:
    grades = [one.grade for one in trials if one.arm is arm]
    unjudged = grades.count(Grade.UNJUDGED)
    return Tally(grades.count(Grade.PASS), len(grades) - unjudged, unjudged)


def _computed_lift(trials: Sequence[Trial], facts: RunFacts) -> float:
    proper = [one for one in trials if not one.control]
    if not proper:
        return NEVER
    topics = {one.topic for one in proper}
    return smallest_visible_lift(len({one.question for one in proper}), len(topics), facts.runs)


def _history(folder: Path, facts: RunFacts, state: Path | None) -> HistoryLines:
    """Return the domain's lines: of the state given, or of the one the folder lies in."""
    inside = folder.parents[2] if len(folder.parents) > 2 else None
    if state is None and inside and folder.parents[1].name == "eval":
        state = inside
    return read_history(state, facts.domain) if state and facts.domain else HistoryLines()
