"""Prove a batch on held-out questions: what changes, what breaks, and one verdict.

All questions are asked with the lessons as they are (the baseline, which is kept), and with
the batch only those whose recalled block differs: the other requests are the same bytes but
for the seed, so their answers come from the same distribution; asking them again could only
add chance. The verdict is computed on those that were asked twice; the rate of the whole set
is told beside it.
Covered: no text of a question leaves this part; an outage is no verdict.
Not covered: harm that no question of the set shows.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from lessons_loop.eval.proving.asking import Asking, KeptTrials, ask, blocks, graded_only, models_of
from lessons_loop.eval.proving.baseline_cache import digest_of_facts, keep_baseline, read_baseline
from lessons_loop.eval.proving.prover_rules import AFTER, AGAIN, BEFORE, broken, suspects
from lessons_loop.eval.question_set import QuestionSet, questions_folder, read_question_set
from lessons_loop.eval.runs.history import HistoryLine, append_history
from lessons_loop.eval.runs.sets import gradable
from lessons_loop.eval.runs.setup import (
    AgentSettings,
    JudgeSettings,
    NoAgent,
    open_agent,
    open_grader,
)
from lessons_loop.eval.shelf import Shelf, digest_of, known_texts
from lessons_loop.eval.stats.compare import Comparison, compare
from lessons_loop.eval.trials import Agent, Grade, Trial
from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.clock import iso, utc_now
from lessons_loop.promote.counting import many
from lessons_loop.promote.proof.lesson_proof import points
from lessons_loop.promote.proof.proving import ProofCase, ProofResult, Prover
from lessons_loop.promote.quiet import busy

JUDGE_NAMES = ("URL", "MODEL", "API_KEY")
SHOWN_IDS = 6
NO_AGENT = "--proof needs an agent: set LESSONS_EVAL_URL and LESSONS_EVAL_MODEL"
TOO_FEW = (
    "--proof: more than 20 % of the questions cannot be graded: set LESSONS_EVAL_DATABASE, and "
    "LESSONS_LLM_URL and LESSONS_LLM_MODEL for rubrics"
)
STAND_IN = "a script stood in for the model: this proves the machinery only"


@dataclass(frozen=True)
class BatchProver:
    """Asks an agent about a batch; see `promote.proving`."""

    asking: Asking
    agent_facts: Mapping[str, Any] = field(default_factory=dict)
    """JSON values: what answers and grades depend on, beside lessons and questions."""
    margin: float = 0.05

    def __call__(self, case: ProofCase) -> ProofResult:
        """Return whether the batch may go in; raise LessonsError where that stays open."""
        asking, texts = self.asking, known_texts(case.embedder) if case.embedder else None
        questions = asking.questions.questions
        with busy("recalling lessons for each question"):
            before = blocks(Shelf(case.before, texts), questions)
            after = blocks(Shelf(case.after, texts), questions)
        changed = [one.id for one in questions if before[one.id] != after[one.id]]
        if not changed:
            told = f"none of {many(len(questions), 'question')} recalls other lessons"
            return ProofResult(True, f"{told}: nothing could be measured", self._facts(case, 0))
        with ExitStack() as stack:
            old = stack.enter_context(asking.opened(case.before, texts))
            new = stack.enter_context(asking.opened(case.after, texts))
            baseline = self._baseline(case, old, before)
            some = asking.some(changed)
            twice = [one for one in baseline if one.question in set(changed)]
            twice += ask(asking, new, AFTER, some)
            doubtful = suspects(twice)
            harmed = broken(self._again(old, new, doubtful), doubtful)
        found = compare(twice, AFTER, BEFORE, self.margin, asking.seed)
        return self._result(case, found, (baseline, twice), (doubtful, harmed))

    def _baseline(self, case: ProofCase, agent: Agent, known: Mapping[str, str]) -> list[Trial]:
        """Return the trials with the lessons as they are, as far as possible from the cache."""
        asking = self.asking
        digest = digest_of_facts(
            {
                "questions": asking.questions.digest,
                "lessons": digest_of(case.before),
                "blocks": dict(known),
                "agent": dict(self.agent_facts),
                "runs": asking.runs,
                "seed": asking.seed,
            }
        )
        kept = KeptTrials(read_baseline(case.state, digest))
        try:
            return ask(asking, agent, BEFORE, asking.questions, kept)
        finally:
            if case.keep:
                keep_baseline(case.state, digest, kept.trials())

    def _again(self, old: Agent, new: Agent, doubtful: Sequence[str]) -> list[Trial]:
        """Return further runs of the suspects in both arms, with seeds of their own."""
        if not doubtful:
            return []
        asking, some = self.asking, self.asking.some(doubtful)
        seed = asking.seed + 1
        return [
            *ask(asking, old, BEFORE, some, runs=AGAIN, seed=seed),
            *ask(asking, new, AFTER, some, runs=AGAIN, seed=seed),
        ]

    def _result(
        self,
        case: ProofCase,
        found: Comparison,
        trials: tuple[Sequence[Trial], Sequence[Trial]],
        flips: tuple[Sequence[str], Sequence[str]],
    ) -> ProofResult:
        whole, asked = trials
        doubtful, harmed = flips
        changed = {one.question for one in asked}
        kept = [one for one in whole if one.question not in changed and not one.control]
        rates = share(whole), share([*kept, *(one for one in asked if one.arm is AFTER)])
        model = models_of(whole) or self.asking.model
        facts = self._facts(case, len(changed)) | {
            "model": model,
            "verdict": found.verdict,
            "before": found.off.rate,
            "after": found.on.rate,
            **{name: getattr(found, name) for name in ("lift", "low", "high", "p", "unjudged")},
            "whole_before": rates[0],
            "whole_after": rates[1],
            "suspected": list(doubtful),
            "broken": list(harmed),
        }
        passed = found.verdict != "harmful" and not harmed
        if case.keep:
            self._note(case, found, model)
        return ProofResult(passed, self._sentence(found, facts), facts)

    def _note(self, case: ProofCase, found: Comparison, model: str) -> None:
        """Add the proof to the domain's history; one that cannot be written costs nothing."""
        line = HistoryLine(
            at=iso(utc_now()),
            kind="proof",
            domain=case.after.domain,
            questions=self.asking.questions.digest[:12],
            model=model,
            stand_in=self.asking.practice,
            lessons=len(case.after.lessons),
            lesson_set=digest_of(case.after)[:12],
            rev=case.after.rev,
            arms={"off": found.off, "on": found.on},
            **{name: getattr(found, name) for name in ("verdict", "lift", "low", "high", "p")},
        )
        with suppress(LessonsError):
            append_history(case.state, line)

    def _facts(self, case: ProofCase, changed: int) -> dict[str, Any]:
        asking = self.asking
        return {
            "question_set": asking.questions.digest[:12],
            "questions": len(asking.questions.questions),
            "asked_twice": changed,
            "runs": asking.runs,
            "new": len(case.new),
            "stand_in": asking.practice,
        }

    def _sentence(self, found: Comparison, facts: Mapping[str, Any]) -> str:
        before, after = (percent(facts[name]) for name in ("before", "after"))
        rates = f"{before} passed before, {after} with the batch"
        span = f"{points(found.lift)} points, 95 % {points(found.low)} to {points(found.high)}"
        told = (
            f"{facts['asked_twice']} of {many(facts['questions'], 'question')} recall other "
            f"lessons: {rates} ({span}, p {found.p:.2g}: {found.verdict}); "
            f"broken: {named(facts['broken'])}; model {facts['model']}"
        )
        return f"{told}; {STAND_IN}" if self.asking.practice else told


def share(trials: Sequence[Trial]) -> float:
    """Return the pass rate of the questions proper, 0 to 1."""
    graded = [one for one in graded_only(trials) if not one.control]
    passed = sum(one.grade is Grade.PASS for one in graded)
    return round(passed / len(graded), 4) if graded else 0.0


def percent(rate: float | None) -> str:
    """Return a rate in words."""
    return "none graded" if rate is None else f"{rate:.0%}"


def named(ids: Sequence[str]) -> str:
    """Return ids in words, the first few of them."""
    more = len(ids) - SHOWN_IDS
    return ", ".join(ids[:SHOWN_IDS]) + (f" and {more} more" if more > 0 else "") or "none"


def make_prover(given: str) -> Prover:
    """Return a prover for a set of questions, its agent as LESSONS_EVAL_* name it.

    Raises BadFile, NoAgent, LessonsError before anybody is asked.
    """
    settings = AgentSettings.from_environment()
    if not (settings.url and settings.model):
        raise NoAgent(NO_AGENT)
    judge = judge_from_environment()
    found = read_question_set(questions_folder(given))
    prover = prover_of(settings, judge, without_ungradable(found, settings, judge))
    whole, kept = len(found.questions), len(prover.asking.questions.questions)
    if whole - kept > prover.asking.max_unjudged * whole:
        raise LessonsError(TOO_FEW)  # a batch is not to pass for want of a database
    return prover


def prover_of(settings: AgentSettings, judge: JudgeSettings, questions: QuestionSet) -> BatchProver:
    """Return a prover that asks all of these questions; raise LessonsError."""
    return BatchProver(asking_about(questions, settings, judge), facts_of(settings, judge))


def asking_of(settings: AgentSettings, judge: JudgeSettings, given: str, **more: Any) -> Asking:
    """Return whom to ask what can be graded; raise BadFile, LessonsError.

    `given` names the questions, `more` are fields of `Asking`.
    """
    found = read_question_set(questions_folder(given))
    return asking_about(without_ungradable(found, settings, judge), settings, judge, **more)


def without_ungradable(
    questions: QuestionSet, settings: AgentSettings, judge: JudgeSettings
) -> QuestionSet:
    """Return the questions somebody can grade; those left out are told on stderr.

    A lesson that only such a question recalls would else end the whole measurement as unjudged.
    """
    kept = gradable(questions, judge=bool(judge.name), reference=settings.reference is not None)
    if left := len(questions.questions) - len(kept.questions):
        said = f"lessons: {many(left, 'question')} left out: no judge, or no database to compare"
        print(f"{said} (LESSONS_LLM_*, LESSONS_EVAL_DATABASE)", file=sys.stderr)
    return kept


def asking_about(
    questions: QuestionSet, settings: AgentSettings, judge: JudgeSettings, **more: Any
) -> Asking:
    """Return whom to ask these questions; `more` are fields of `Asking`. Raises LessonsError."""
    return Asking(
        questions,
        lambda found, embedder: open_agent(settings, found, None, embedder),
        open_grader(settings, judge),
        settings.model,
        settings.practice,
        **more,
    )


def facts_of(settings: AgentSettings, judge: JudgeSettings) -> dict[str, Any]:
    """Return what answers and grades depend on; the values of valves as a digest only."""
    valves = digest_of_facts({"valves": json.loads(json.dumps(dict(settings.tool_valves)))})
    database = settings.reference.stat() if settings.reference else None
    seen = [database.st_size, database.st_mtime_ns] if database else []  # it may be too big to read
    return {**settings.recorded(), "valves": valves, "judge": judge.name, "reference": seen}


def judge_from_environment() -> JudgeSettings:
    """Return the judge LESSONS_LLM_* name."""
    url, model, key = (os.environ.get(f"LESSONS_LLM_{name}", "") for name in JUDGE_NAMES)
    return JudgeSettings(url.strip(), model.strip(), key.strip())
