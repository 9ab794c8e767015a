"""What a run of the gate did: one outcome per group, and the numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lessons_loop.filter.models import Lesson
from lessons_loop.promote.cases import Case
from lessons_loop.promote.decay.harmful import Harm
from lessons_loop.promote.decay.run import DecayReport
from lessons_loop.promote.decide.changes import (
    describe_finding,
    describe_judgement,
    describe_neighbour,
    masked_lesson,
    masked_values,
)
from lessons_loop.promote.gate import Mode
from lessons_loop.promote.proof.proving import ProofResult
from lessons_loop.promote.records import Decision, Verdict


@dataclass(frozen=True)
class Outcome:
    """What became of one group."""

    case: Case
    verdict: Verdict
    lesson: Lesson
    not_reviewed: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, masked."""
        group = self.case.group
        shown = masked_lesson(self.lesson)
        return {
            "id": self.lesson.key[:12],
            "key": self.lesson.key,
            "kind": shown.kind.value,
            "text": shown.text,
            "trigger": shown.trigger,
            "decision": self.verdict.decision.value,
            "rule": self.verdict.rule,
            "reason": self.verdict.reason,
            "decided_by": self.verdict.actor.kind,
            "not_reviewed": self.not_reviewed,
            "sightings": group.sightings,
            "users": group.users,
            "neighbour": describe_neighbour(self.case.verdict.neighbour),
            "judged": describe_judgement(self.case.judgement),
            "findings": [describe_finding(finding) for finding in self.case.findings],
        }


@dataclass
class RunReport:
    """What a run did, in numbers and one line per group."""

    run: str
    domain: str
    mode: Mode
    dry_run: bool
    outcomes: list[Outcome] = field(default_factory=list)
    candidates: int = 0
    folded: int = 0
    distiller: Mapping[str, int] = field(default_factory=dict)
    """What the filters counted since the last run."""
    decay: DecayReport | None = None
    """Lessons that stopped helping; None: nobody asked."""
    harmful: tuple[Harm, ...] = ()
    """Lessons held because they were measured to do harm."""
    proof: ProofResult | None = None
    """What the batch's proof said; None: nobody asked for one."""
    unreadable: int = 0
    """Rows of staging that are no candidates."""
    set_aside: int = 0
    """How many of them are old: copied into the state directory, then deleted."""
    error: str = ""
    """Why the review, or judging, ended early; empty when it did not."""
    judged: Counter[str] = field(default_factory=Counter)
    """Judgements of a model on related lessons, by word."""

    def counts(self) -> dict[str, int]:
        """Return how many groups went which way, and what else was counted."""
        found = Counter(outcome.verdict.decision for outcome in self.outcomes)
        missed = sum(outcome.not_reviewed for outcome in self.outcomes)
        decay = self.decay or DecayReport()
        return {
            "promoted": found[Decision.PROMOTE],
            "duplicates": found[Decision.DUPLICATE],
            "held": found[Decision.HOLD],
            "rejected": found[Decision.REJECT],
            "skipped": found[Decision.SKIP] - missed,
            "not_reviewed": missed,
            "demoted": len(decay.demoted),
            "proposed": len(decay.proposed),
            "harmful": len(self.harmful),
            "folded": self.folded,
            "unreadable": self.unreadable,
            "set_aside": self.set_aside,
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {
            "run": self.run,
            "domain": self.domain,
            "mode": self.mode.value,
            "dry_run": self.dry_run,
            "candidates": self.candidates,
            "counts": self.counts(),
            "judged": dict(self.judged),
            "decay": self.decay.as_dict() if self.decay else None,
            "harmful": [one.as_dict() for one in self.harmful],
            "proof": masked_values(self.proof.as_dict()) if self.proof else None,
            "distiller": dict(self.distiller),
            "error": self.error,
            "verdicts": [outcome.as_dict() for outcome in self.outcomes],
        }
