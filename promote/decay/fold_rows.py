"""From staged events to rows of the use register: pure.

The outcome does not depend on the order of events, nor on how they are split over runs:
the newest rating of an answer counts, and a use is written once.
Only the asker's own thumb judges an answer: a rating is joined to the use of the same
message and user, so that whoever rates a shared chat changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from lessons_loop.filter.events import COUNTS_LIMIT, Rating, Usage
from lessons_loop.filter.inject import reference
from lessons_loop.filter.text import digest
from lessons_loop.promote.clock import iso, parse_iso
from lessons_loop.promote.decay.uses import Use
from lessons_loop.promote.store.candidates import StagedEvents

WAIT_DAYS = 30
"""How long a rating waits for its use, and a later plugin's event for a gate that reads it."""
AHEAD = timedelta(days=1)
"""How far in the future a waiting rating may lie: one that is never old would wait for ever."""
OTHER_COUNTS = "others"
"""Stands for the counters of a flood of names."""
_ORDER = ("up", "down", "none")
"""Of two ratings at one moment the later of these counts."""
_NEVER = datetime.min.replace(tzinfo=UTC)


class OfUse(NamedTuple):
    """The events of one answer and user."""

    use: str
    """Id of the use."""
    usage: Usage | None
    ratings: tuple[Rating, ...]
    rows: tuple[str, ...]
    """Ids of the staged rows."""


def by_use(staged: StagedEvents) -> list[OfUse]:
    """Return the events by the use they belong to, in a fixed order."""
    usages = {usage.id: usage for _, usage in staged.usages}
    ratings: dict[str, list[Rating]] = {}
    for _, rating in staged.ratings:
        ratings.setdefault(use_of(rating), []).append(rating)
    return [
        OfUse(
            id_,
            usages.get(id_),
            tuple(ratings.get(id_, ())),
            ((id_,) if id_ in usages else ()) + tuple(one.id for one in ratings.get(id_, ())),
        )
        for id_ in sorted({*usages, *ratings})
    ]


def in_batches(events: Sequence[OfUse], most: int) -> Iterator[list[OfUse]]:
    """Yield them in batches of about `most` staged rows."""
    batch: list[OfUse] = []
    rows = 0
    for one in events:
        batch.append(one)
        rows += len(one.rows)
        if rows >= most:
            yield batch
            batch, rows = [], 0
    if batch:
        yield batch


def use_of(rating: Rating) -> str:
    """Return the id of the use that the rater's answer has."""
    return digest(Usage.kind, rating.message_ref, rating.user_ref)


def new_use(usage: Usage, known: Collection[str], now: datetime) -> Use | None:
    """Return the register's row, None where no lesson it names is `known`."""
    keys = tuple(key for key in dict.fromkeys(usage.keys) if key in known)
    moment = parse_iso(usage.at)
    return (
        Use(
            id=usage.id,
            message_ref=usage.message_ref,
            user_ref=usage.user_ref,
            chat_ref=usage.chat_ref,
            at=iso(min(moment, now)) if moment else usage.at,
            keys=keys,
            model=usage.model,
            finish=usage.outcome,
            tools=usage.tools,
        )
        if keys
        else None
    )


def rated(use: Use, ratings: Iterable[Rating]) -> Use:
    """Return the use with the newest of its own and these ratings."""
    newest = use
    for rating in ratings:
        one = use.model_copy(
            update={
                "rating": "" if rating.outcome == "none" else rating.outcome,
                "rated_at": rating.at,
                "rating_reason": rating.reason,
                "rated_keys": _named(use, rating.keys),
            }
        )
        newest = max(newest, one, key=_rank)
    return newest


def waits(ratings: Sequence[Rating], now: datetime) -> bool:
    """Say whether ratings without a use may stay in staging."""
    return any(_may_wait(rating.at, now) for rating in ratings)


def too_late(staged: StagedEvents, now: datetime) -> list[str]:
    """Return the rows of a later plugin that waited too long for a gate that reads them."""
    return [id_ for id_, at in staged.later if not _may_wait(at, now)]


def _may_wait(at: str, now: datetime) -> bool:
    return now - timedelta(days=WAIT_DAYS) <= (parse_iso(at) or _NEVER) <= now + AHEAD


def totals(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums by name; beyond COUNTS_LIMIT names, which no filter has, one for the rest."""
    found: dict[str, int] = {}
    for one in counts:
        for name, number in one.items():
            found[name] = found.get(name, 0) + number
    names = sorted(found)
    kept = {name: found[name] for name in names[:COUNTS_LIMIT]}
    rest = sum(found[name] for name in names[COUNTS_LIMIT:])
    return kept | ({OTHER_COUNTS: rest} if rest else {})


def _named(use: Use, references: Sequence[str]) -> tuple[str, ...]:
    """Return the lessons of this answer that a comment named; other words are no references."""
    return tuple(key for key in use.keys if reference(key) in references)


def _rank(use: Use) -> tuple[bool, datetime, int, str, tuple[str, ...], str]:
    moment = parse_iso(use.rated_at) or _NEVER
    place = _ORDER.index(use.rating or "none")
    return bool(use.rated_at), moment, place, use.rating_reason, use.rated_keys, use.rated_at
