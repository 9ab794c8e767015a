"""Turn a person's decision on a curated or a gone lesson into its change: pure."""

from __future__ import annotations

from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.models import Curated, Status
from lessons_loop.promote.decide.changes import (
    Resolution,
    masked_values,
    merged,
    payload_of,
    retired,
)
from lessons_loop.promote.masking import mask_through
from lessons_loop.promote.records import Action, Archived, Change


def withdraw_change(row: Curated, found: Resolution) -> Change:
    """Return the change that takes a curated lesson out of use, rejected from now on."""
    reason = f"withdrawn from curated: {mask_through(found.verdict.reason)}"
    rejected = row.lesson.model_copy(update={"status": Status.REJECTED})
    return Change(
        action=Action.RETIRE,
        key=row.key,
        reason=reason,
        actor=found.verdict.actor,
        payload=payload_of(found) | {"curated": masked_values(row.model_dump(mode="json"))},
        remove=(row.key,),
        archive=(
            Archived(lesson=rejected, reason=reason, at=found.at, curated=row),
            *merged(found, row.key),
        ),
        staged=found.group.staged,
    )


def demote_change(row: Curated, found: Resolution) -> Change:
    """Return the change that takes a curated lesson out of use as stale, counters kept."""
    reason = mask_through(found.verdict.reason)
    stale = row.lesson.model_copy(update={"status": Status.STALE})
    return Change(
        action=Action.DEMOTE,
        key=row.key,
        reason=reason,
        actor=found.verdict.actor,
        payload=payload_of(found) | {"curated": masked_values(row.model_dump(mode="json"))},
        remove=(row.key,),
        archive=(Archived(lesson=stale, reason=reason, at=found.at, curated=row),),
    )


def revive_change(found: Resolution, before: Curated | None, vectors: Vectors) -> Change:
    """Return the change that makes a lesson out of use curated; `before`: as it once was.

    Its counters go on; `since` is now, so that decay judges by what comes from here on.
    """
    old = found.replaces
    lesson = found.group.lesson.model_copy(update={"status": Status.CURATED})
    fresh = before or Curated(
        lesson=lesson,
        occurrences=found.group.sightings,
        distinct_users=found.group.users,
        since=found.at,
    )
    supersedes = old.key if old else fresh.supersedes
    row = fresh.model_copy(update={"lesson": lesson, "since": found.at, "supersedes": supersedes})
    gone = [retired(old, row.key, found)] if old else []
    return Change(
        action=Action.REVIVE,
        key=row.key,
        reason=mask_through(found.verdict.reason),
        actor=found.verdict.actor,
        payload=payload_of(found),
        put=(row,),
        vectors=vectors,
        remove=(old.key,) if old else (),
        archive=(*gone, *merged(found, row.key)),
        staged=found.group.staged,
    )
