"""Turn a decision on a group into the change that carries it out: pure.

What goes into the archive and the ledger is masked once more: a secret in a
rejected candidate must not live on beside the decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.errors import InvalidLesson
from lessons_loop.filter.models import (
    EXCERPT_LIMIT,
    QUOTE_LIMIT,
    TAG_LENGTH,
    TEXT_LIMIT,
    TRIGGER_LIMIT,
    Candidate,
    Curated,
    Lesson,
    Status,
)
from lessons_loop.filter.text import shorten
from lessons_loop.promote.lint.findings import Finding
from lessons_loop.promote.masking import mask_through
from lessons_loop.promote.records import Action, Archived, Change, Decision, Neighbour, Verdict
from lessons_loop.promote.similar.groups import Group
from lessons_loop.promote.similar.judge import Judgement

SIGHTINGS_KEPT = 50
"""Sightings a held lesson carries along, oldest first."""


@dataclass(frozen=True)
class Resolution:
    """What was decided on a group, and on which grounds."""

    group: Group
    verdict: Verdict
    """The final one: its actor and reason go into the ledger."""
    findings: tuple[Finding, ...]
    at: str
    by_rules: Verdict | None = None
    """What the rules said, where somebody else decided."""
    edited: Lesson | None = None
    """The wording a person put in place of the candidate's."""
    replaces: Curated | None = None
    """The curated lesson that goes."""
    history: tuple[dict[str, Any], ...] = ()
    """Earlier decisions on the same lesson, oldest first."""
    judgement: Judgement | None = None
    """What a model said about it and its neighbour."""
    proof: Mapping[str, Any] | None = None
    """What the batch's proof measured."""


def promote_change(found: Resolution, vectors: Vectors) -> Change:
    """Return the change that makes the lesson curated; `vectors` has shape (1, dimension)."""
    lesson = (found.edited or found.group.lesson).model_copy(update={"status": Status.CURATED})
    row = Curated(
        lesson=lesson,
        occurrences=found.group.sightings,
        distinct_users=found.group.users,
        since=found.at,
        supersedes=found.replaces.key if found.replaces else "",
    )
    gone = [retired(found.replaces, row.key, found)] if found.replaces else []
    return Change(
        action=Action.SUPERSEDE if found.replaces else Action.PROMOTE,
        key=row.key,
        reason=found.verdict.reason,
        actor=found.verdict.actor,
        payload=payload_of(found),
        put=(row,),
        vectors=vectors,
        remove=(found.replaces.key,) if found.replaces else (),
        archive=(*gone, *merged(found, row.key)),
        staged=found.group.staged,
    )


def duplicate_change(found: Resolution, old: Curated) -> Change:
    """Return the change that counts the sightings on the curated lesson.

    Curated knows no users, so that `distinct_users` is the greatest number one run has seen.
    """
    row = old.model_copy(
        update={
            "occurrences": old.occurrences + found.group.sightings,
            "distinct_users": max(old.distinct_users, found.group.users),
        }
    )
    return Change(
        action=Action.DUPLICATE,
        key=old.key,
        reason=found.verdict.reason,
        actor=found.verdict.actor,
        payload=payload_of(found),
        put=(row,),
        archive=tuple(merged(found, old.key)),
        staged=found.group.staged,
    )


def archive_change(found: Resolution) -> Change:
    """Return the change that holds or rejects."""
    held = found.verdict.decision is Decision.HOLD
    status = Status.HELD if held else Status.REJECTED
    lesson = masked_lesson(found.group.lesson).model_copy(update={"status": status})
    sightings = _masked_sightings(found.group.candidates)
    row = Archived(
        lesson=lesson,
        reason=f"{found.verdict.rule}: {mask_through(found.verdict.reason)}",
        at=found.at,
        candidate=sightings[0] if sightings else None,
        sightings=sightings[1:] if held else (),
        curated=next(
            (old.curated for old in found.group.held if old.id == f"{lesson.key}-{status.value}"),
            None,
        ),
    )
    return Change(
        action=Action.HOLD if held else Action.REJECT,
        key=lesson.key,
        reason=row.reason,
        actor=found.verdict.actor,
        payload=payload_of(found),
        archive=(row, *merged(found, lesson.key)),
        staged=found.group.staged,
    )


def payload_of(found: Resolution) -> dict[str, object]:
    """Return what the ledger keeps of a decision, masked."""
    content: dict[str, Any] = {
        "lesson": found.group.lesson.model_dump(mode="json"),
        "candidates": [
            seen.model_dump(mode="json") for seen in found.group.candidates[:SIGHTINGS_KEPT]
        ],
        "sightings": found.group.sightings,
        "users": found.group.users,
        "verdict": describe_verdict(found.verdict),
        "findings": [describe_finding(finding) for finding in found.findings],
        "neighbour": describe_neighbour(found.verdict.neighbour),
    }
    if found.by_rules:
        content["rules"] = describe_verdict(found.by_rules)
    if found.edited:
        content["edited"] = found.edited.model_dump(mode="json")
    if found.replaces:
        content["replaces"] = found.replaces.model_dump(mode="json")
    if found.judgement:
        content["judged"] = describe_judgement(found.judgement)
    if found.proof:
        content["proof"] = dict(found.proof)
    if found.history:
        content["history"] = list(found.history)
    return dict(masked_values(content))


def describe_verdict(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as plain values."""
    return {
        "decision": verdict.decision.value,
        "rule": verdict.rule,
        "reason": verdict.reason,
        "actor": verdict.actor.model_dump(),
    }


def describe_finding(finding: Finding) -> dict[str, str]:
    """Return a finding as plain values."""
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "sentence": finding.sentence,
    }


def describe_judgement(said: Judgement | None) -> dict[str, Any] | None:
    """Return a model's judgement as plain values."""
    if said is None:
        return None
    return {"word": said.word.value, "reason": said.reason, "actor": said.actor.model_dump()}


def describe_neighbour(near: Neighbour | None) -> dict[str, Any] | None:
    """Return the nearest curated lesson as plain values."""
    if near is None:
        return None
    return {
        "key": near.curated.key,
        "text": near.curated.lesson.text,
        "similarity": near.similarity,
        "relation": near.relation,
        "differences": list(near.differences),
    }


def masked_lesson(lesson: Lesson) -> Lesson:
    """Return the lesson with secrets and personal values masked, within its limits."""
    fields = {
        "text": shorten(mask_through(lesson.text), TEXT_LIMIT),
        "trigger": shorten(mask_through(lesson.trigger), TRIGGER_LIMIT),
        "tags": tuple(shorten(mask_through(tag), TAG_LENGTH) for tag in lesson.tags),
    }
    return lesson.model_copy(update=fields)


def _masked_sightings(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    masked = (_masked_candidate(seen) for seen in candidates[:SIGHTINGS_KEPT])
    return tuple(seen for seen in masked if seen is not None)


def _masked_candidate(seen: Candidate) -> Candidate | None:
    """Return a masked copy, None where masking leaves nothing valid."""
    proof = seen.evidence.model_dump() | {
        "quote": shorten(mask_through(seen.evidence.quote), QUOTE_LIMIT),
        "excerpt": shorten(mask_through(seen.evidence.excerpt), EXCERPT_LIMIT),
    }
    fields = seen.model_dump() | {"lesson": masked_lesson(seen.lesson), "evidence": proof}
    try:
        return Candidate.build(**fields)
    except InvalidLesson:
        return None


def masked_values(value: Any) -> Any:
    """Return plain values with every string masked."""
    if isinstance(value, str):
        return mask_through(value)
    if isinstance(value, Mapping):
        return {key: masked_values(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [masked_values(inner) for inner in value]
    return value


def retired(old: Curated, by: str, found: Resolution) -> Archived:
    """Return the row of a curated lesson that another one replaces."""
    return Archived(
        lesson=old.lesson.model_copy(update={"status": Status.SUPERSEDED}),
        reason=f"superseded by {by[:12]}: {mask_through(found.verdict.reason)}",
        at=found.at,
        curated=old,
    )


def merged(found: Resolution, into: str) -> list[Archived]:
    """Return rows that close the held wordings which now stand in another one."""
    closed = [row for row in found.group.held if row.lesson.key != into]
    return [
        Archived(
            lesson=row.lesson.model_copy(update={"status": Status.SUPERSEDED}),
            reason=f"merged into {into[:12]}",
            at=found.at,
            candidate=row.candidate,
        )
        for row in closed
    ]
