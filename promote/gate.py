"""Judge one group of candidates by rules: pure, from what is known to a verdict.

Steps, in order: evidence and lint, near-duplicate of curated,
seen before, corroboration. A verdict PROMOTE means "no rule stands against it";
whether anybody then promotes it is review's part.
Covered: every rule fails closed: without an embedder nothing is promoted.
Not covered: whether the advice is good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from lessons_loop.filter.models import Candidate, Lesson
from lessons_loop.promote.evidence.check import check_evidence
from lessons_loop.promote.lint.check import lint
from lessons_loop.promote.lint.findings import Finding, Severity
from lessons_loop.promote.records import Actor, Decision, Neighbour, Verdict
from lessons_loop.promote.similar.groups import Group, count_users
from lessons_loop.promote.similar.similarity import (
    CONFLICT,
    DUP_THRESHOLD,
    DUPLICATE,
    RELATED,
    adds_advice,
)

RELATION_REASONS = {
    DUPLICATE: "says nothing that lesson {key} does not say",
    CONFLICT: "differs from lesson {key} where both cannot be followed",
    RELATED: "is close to lesson {key}: a person has to compare them",
}


class Mode(StrEnum):
    """Who decides on what no rule stands against."""

    NONE = "none"
    """Nobody: a preview."""
    RULES = "rules"
    """`--unattended` alone: rules hold, reject and fold; nothing is promoted."""
    HUMAN = "human"
    LLM = "llm"
    AUTO = "auto"


@dataclass(frozen=True)
class Rules:
    """What a run judges by."""

    dup_threshold: float = DUP_THRESHOLD
    min_users: int = 2
    """Distinct users in distinct chats an unattended promotion needs."""
    allow_hosts: tuple[str, ...] = ()
    check_evidence: bool = True
    proving: bool = False
    """The run measures its batch: what an earlier proof held may come again."""


@dataclass(frozen=True)
class Situation:
    """What the store knows about a group."""

    neighbour: Neighbour | None = None
    """The curated lesson that matters most, None when there is none near."""
    before: tuple[str, str] | None = None
    """Rule and sentence of an earlier decision that stands against it."""
    compared: bool = True
    """False: no embedder, so nearness is unknown."""
    unsealed: frozenset[str] = frozenset()
    """Ids of sightings that did not come from the plugin as they are."""


def examine(lesson: Lesson, candidates: Sequence[Candidate], rules: Rules) -> tuple[Finding, ...]:
    """Return the findings of step 1, rejecting ones first.

    One sighting with sound evidence is enough; else the best one's findings count.
    """
    evidence = min((_evidence(seen, rules) for seen in candidates), key=_weight, default=())
    found = (*evidence, *lint(lesson, rules.allow_hosts))
    return tuple(sorted(found, key=lambda finding: finding.severity is not Severity.REJECT))


def judge(group: Group, situation: Situation, rules: Rules) -> Verdict:
    """Return the rules' verdict on a group; the first rule that stands against it decides."""
    findings = examine(group.lesson, group.candidates, rules)
    verdict = (
        _by_shape(findings)
        or _by_neighbour(situation, rules)
        or _by_severity(findings, Severity.HOLD, Decision.HOLD)
        or _by_history(situation)
        or _by_sightings(group, rules, situation.unsealed)
    )
    if verdict is None:
        reason = "no rule stands against it"
        return _verdict(Decision.PROMOTE, "all-rules", reason, situation)
    return _with_history(verdict, situation)


def _by_shape(findings: Sequence[Finding]) -> Verdict | None:
    return _by_severity(findings, Severity.REJECT, Decision.REJECT)


def _by_severity(
    findings: Sequence[Finding], severity: Severity, decision: Decision
) -> Verdict | None:
    for finding in findings:
        if finding.severity is severity:
            return _verdict(decision, finding.rule, finding.sentence)
    return None


def _by_neighbour(situation: Situation, rules: Rules) -> Verdict | None:
    near = situation.neighbour
    if near is not None and near.relation in RELATION_REASONS:
        decision = Decision.DUPLICATE if near.relation == DUPLICATE else Decision.HOLD
        why = RELATION_REASONS[near.relation].format(key=near.curated.key[:12])
        reason = f"{why} (cosine {near.similarity:.2f}, threshold {rules.dup_threshold:.2f})"
        return _verdict(decision, near.relation, reason, situation)
    if not situation.compared:
        return _verdict(
            Decision.SKIP, "no-embedder", "not compared with curated: set LESSONS_EMBEDDING"
        )
    return None


def _by_history(situation: Situation) -> Verdict | None:
    if situation.before is None:
        return None
    return _verdict(Decision.HOLD, *situation.before, situation)


def _with_history(verdict: Verdict, situation: Situation) -> Verdict:
    """Return the verdict; where another rule holds, it tells of the earlier decision too."""
    before = situation.before
    told = verdict.decision is not Decision.HOLD or before is None or verdict.rule == before[0]
    if told or before is None:
        return verdict
    return replace(verdict, reason=f"{verdict.reason}; seen before: {before[1]}")


def _by_sightings(group: Group, rules: Rules, unsealed: frozenset[str]) -> Verdict | None:
    own = [seen for seen in group.candidates if seen.id not in unsealed]
    sound = [seen for seen in own if not _evidence(seen, rules)]
    whole = [seen for seen in sound if not adds_advice(group.lesson, seen.lesson)]
    users, some = count_users(whole), count_users(sound)
    if users >= rules.min_users:
        return None
    part = f" ({some} showed a part of it)" if some > users else ""
    if len(own) < len(group.candidates):
        part += f" ({len(group.candidates) - len(own)} sighting(s) without the plugin's seal)"
    lower = f", or a run with --min-users {users}" if users else ""
    reason = (
        f"shown by {users} user(s) in separate chats{part}, {rules.min_users} needed; "
        f"a person may: `lessons promote {group.key[:12]} --reason TEXT`{lower}"
    )
    return _verdict(Decision.HOLD, "min-users", reason)


def _evidence(candidate: Candidate, rules: Rules) -> tuple[Finding, ...]:
    return check_evidence(candidate) if rules.check_evidence else ()


def _weight(findings: Sequence[Finding]) -> tuple[bool, int]:
    return any(found.severity is Severity.REJECT for found in findings), len(findings)


def _verdict(
    decision: Decision, rule: str, reason: str, situation: Situation | None = None
) -> Verdict:
    neighbour = situation.neighbour if situation else None
    return Verdict(decision, rule, reason, Actor(kind="rule", name=rule), neighbour)
