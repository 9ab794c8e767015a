"""Print a lesson's whole life for people."""

from __future__ import annotations

from collections.abc import Iterator

from lessons_loop.promote.ledger.past import times
from lessons_loop.promote.life import SHOWN_SIGHTINGS, Life
from lessons_loop.promote.proof.lesson_proof import LessonProof
from lessons_loop.promote.render import case_lines, decision_line, evidence_lines, plain


def life_lines(life: Life) -> list[str]:
    """Return the lines: what it is, how it was proposed, decided, used, and where it stands."""
    head = [f"id:        {life.key}", f"status:    {life.status}"]
    if life.case is not None:
        return [*head, *case_lines(life.case)[1:], *_proposed(life), *_curated(life)]
    lines = [
        *head,
        f"lesson:    {plain(life.lesson.text)}",
        f"kind:      {life.lesson.kind.value}",
        f"trigger:   {plain(life.lesson.trigger)}",
        f"tags:      {plain(', '.join(life.lesson.tags)) or '-'}",
        f"source:    {plain(life.lesson.source)}",
    ]
    if life.archived is not None:
        lines.append(f"reason:    {plain(life.archived.reason)}")
    lines += _proposed(life)
    for seen in life.sightings[:SHOWN_SIGHTINGS]:
        lines += evidence_lines(seen)
    lines += [*_curated(life), *_used(life)]
    lines += [decision_line(decision) for decision in life.decisions]
    return [*lines, *_standing(life)]


def _proposed(life: Life) -> Iterator[str]:
    refused = life.chain.told()
    if refused:
        yield f"proposed:  {plain(refused.removeprefix('proposed '))}"
    elif life.sightings:
        models = sorted({seen.model for seen in life.sightings if seen.model})
        by = f", by {plain(', '.join(models))}" if models else ""
        yield f"proposed:  {times(life.chain.proposed)}{by}, first {life.sightings[0].at}"


def _curated(life: Life) -> Iterator[str]:
    row = life.curated
    if row is None:
        return
    yield f"since:     {row.since}"
    yield f"counted:   {row.occurrences} sightings, {row.distinct_users} users, {row.hits} hits"
    if row.supersedes:
        yield f"replaces:  {row.supersedes[:12]}"


def _used(life: Life) -> Iterator[str]:
    row, record = life.curated, life.record
    if row is not None and (row.successes or row.failures):
        yield f"judged:    {row.successes} well, {row.failures} badly"
    if record and record["uses"]:
        yield (
            f"used:      {record['uses']} answers for {record['users']} users: "
            f"{record['up']} thumbs up, {record['down']} down, "
            f"tools ok {record['tools_ok']}, failed {record['tools_failed']}"
        )
    if row is not None and row.last_used:
        yield f"last used: {row.last_used}"
    if row is not None and (proof := LessonProof.of(row)):
        yield f"measured:  {proof.verdict}: {plain(proof.told())}"


def _standing(life: Life) -> Iterator[str]:
    if life.replaced_by:
        yield f"replaced:  by {life.replaced_by[:12]}"
    if life.snapshots:
        count, first, last = len(life.snapshots), life.snapshots[0], life.snapshots[-1]
        yield f"snapshots: {count} since, {first}" + (f" to {last}" if count > 1 else "")
    if life.recalled:
        yield f"recalled:  {plain(life.recalled)}"
