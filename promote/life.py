"""A lesson's whole life: how it was proposed, what was decided, where it stands, how it fares.

Covered: no user, chat or message is named, in any form.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lessons_loop.filter.errors import InvalidLesson, LessonsError
from lessons_loop.filter.models import Candidate, Curated, Lesson
from lessons_loop.filter.published import read_published
from lessons_loop.promote.cases import Case, Casebook
from lessons_loop.promote.decide.changes import describe_finding, describe_neighbour, masked_lesson
from lessons_loop.promote.ledger.past import Chain, keys_of
from lessons_loop.promote.lookup import Listing, find_waiting, only
from lessons_loop.promote.proof.lesson_proof import LessonProof
from lessons_loop.promote.records import Archived
from lessons_loop.promote.session import GateSession
from lessons_loop.promote.snapshot.kept import list_snapshots

SHOWN_SIGHTINGS = 3


class Where(NamedTuple):
    """Where a store's own files lie; a session that only reads works on a copy."""

    state: Path
    published: Path | None
    """None: recall reads the server."""


class Life(NamedTuple):
    """Everything there is about one lesson."""

    key: str
    lesson: Lesson
    status: str
    """candidate, curated, held, rejected, stale or superseded."""
    sightings: tuple[Candidate, ...]
    chain: Chain
    decisions: tuple[dict[str, Any], ...]
    case: Case | None = None
    """What the rules say, where it waits."""
    curated: Curated | None = None
    """The curated row, as it is or last was."""
    archived: Archived | None = None
    """The newest archive row."""
    replaced_by: str = ""
    snapshots: tuple[str, ...] = ()
    """Names of the snapshots taken since it became curated."""
    recalled: str = ""
    """Whether recall reads it, in words."""
    record: dict[str, int] | None = None
    """How its uses were judged."""


def find_curated_or_gone(book: Casebook, prefix: str, where: Where) -> Life | None:
    """Return a lesson that is curated, or only in the archive; None where it may wait.

    Needs no embedder. Raises InvalidLesson where several fit.
    """
    session = book.session
    if any(key.startswith(prefix) for key in session.curated):
        rows = [row for key, row in session.curated.items() if key.startswith(prefix)]
        row = only(rows, prefix, "lesson")
        return _curated_life(book, row, where)
    waiting = (*(one.lesson.key for one in session.candidates()), *_held_keys(session))
    ids = (one.id for one in session.candidates())
    if any(name.startswith(prefix) for name in (*waiting, *ids)):
        return None
    rows_gone = [row for row in session.archive.values() if row.lesson.key.startswith(prefix)]
    latest = {row.lesson.key: row for row in sorted(rows_gone, key=lambda row: row.ledger_ref)}
    if not latest:
        return _told_by_ledger(book, prefix)
    return _gone_life(book, only(list(latest.values()), prefix, "lesson"), where)


def find_waiting_life(listing: Listing, prefix: str) -> Life:
    """Return a lesson that waits, with the rules' verdict on it; raise InvalidLesson."""
    book = listing.book
    group = find_waiting(listing, prefix)
    case = book.case(group)
    status = "candidate" if group.staged else group.held[0].status.value
    past = book.precedents.past
    return Life(
        group.key,
        group.lesson,
        status,
        group.candidates,
        past.chain(keys_of(group), group.candidates),
        tuple(book.decisions([group.key])),
        case,
        curated=_once_curated(book.session, group.key),
        archived=_newest(book.session, group.key),
    )


def life_as_dict(life: Life) -> dict[str, Any]:
    """Return it as plain values."""
    shown = masked_lesson(life.lesson)
    found: dict[str, Any] = {
        "id": life.key[:12],
        "key": life.key,
        "status": life.status,
        "lesson": shown.model_dump(mode="json"),
        "text": shown.text,
        "kind": shown.kind.value,
        "trigger": shown.trigger,
        "tags": list(shown.tags),
        "source": shown.source,
        "sightings": len({seen.message_ref for seen in life.sightings}),
        "evidence": [sighting_as_dict(seen) for seen in life.sightings],
        "earlier": life.chain._asdict(),
        "decisions": list(life.decisions),
        "replaced_by": life.replaced_by,
        "snapshots": list(life.snapshots),
        "recalled": life.recalled,
        "judged_uses": life.record,
        "reason": life.archived.reason if life.archived and life.status != "curated" else "",
    }
    if life.curated is not None:
        row = life.curated.model_dump(mode="json", exclude={"lesson", "proof"})
        proof = LessonProof.of(life.curated)
        row["proof"] = proof.model_dump(mode="json") if proof else None
        found |= {"curated": row, "supersedes": life.curated.supersedes}
    if life.case is not None:
        verdict = life.case.verdict
        found |= {
            "decision": verdict.decision.value,
            "rule": verdict.rule,
            "verdict_reason": verdict.reason,
            "users": life.case.group.users,
            "neighbour": describe_neighbour(verdict.neighbour),
            "findings": [describe_finding(one) for one in life.case.findings],
        }
    return found


def sighting_as_dict(seen: Candidate) -> dict[str, Any]:
    """Return a sighting without whose it was."""
    producer = {"model": seen.model, "prompt": seen.prompt}
    return {"at": seen.at, **producer, **seen.evidence.model_dump(mode="json")}


def _curated_life(book: Casebook, row: Curated, where: Where) -> Life:
    sightings = _recorded_sightings(book, row.key)
    return Life(
        row.key,
        row.lesson,
        "curated",
        sightings,
        book.precedents.past.chain([row.key], sightings),
        tuple(book.decisions([row.key])),
        curated=row,
        snapshots=tuple(_snapshots_since(where.state, row.lesson.domain, row.since)),
        recalled=_recalled(where.published, row),
        record=_record(book.session, row.key),
    )


def _gone_life(book: Casebook, row: Archived, where: Where) -> Life:
    session, key = book.session, row.lesson.key
    sightings = row.all_sightings or _recorded_sightings(book, key)
    return Life(
        key,
        row.lesson,
        row.status.value,
        sightings,
        book.precedents.past.chain([key], sightings),
        tuple(book.decisions([key])),
        curated=_once_curated(session, key),
        archived=row,
        replaced_by=_heir(session, key),
        snapshots=tuple(_snapshots_since(where.state, session.domain, row.at)),
        recalled=f"no: it is {row.status.value}",
        record=_record(session, key),
    )


def _told_by_ledger(book: Casebook, prefix: str) -> Life:
    """Return what the ledger tells of a lesson that stands nowhere else; raise InvalidLesson."""
    past = book.precedents.past
    entry = only(past.last_of(prefix, book.session.domain), prefix, "lesson")
    lesson = past.lesson(entry)
    if lesson is None:
        raise InvalidLesson(f"lesson {prefix} is gone: `lessons history` tells what was decided")
    sightings = _recorded_sightings(book, entry.key)
    return Life(
        entry.key,
        lesson,
        "gone",
        sightings,
        past.chain([entry.key], sightings),
        tuple(book.decisions([entry.key])),
        recalled="no: only the ledger still tells of it",
    )


def _recorded_sightings(book: Casebook, key: str) -> tuple[Candidate, ...]:
    """Return the sightings the ledger's payloads keep, oldest first."""
    past, found = book.precedents.past, {}
    for entry in past.lines([key]):
        rows = (past.ledger.payload(entry) or {}).get("candidates")
        for row in rows if isinstance(rows, list) else ():
            try:
                seen = Candidate.build(**row)
            except (InvalidLesson, TypeError):
                continue
            found[seen.message_ref] = seen
    return tuple(sorted(found.values(), key=lambda seen: (seen.at, seen.id)))


def _held_keys(session: GateSession) -> list[str]:
    return [row.lesson.key for row in session.held()]


def _newest(session: GateSession, key: str) -> Archived | None:
    rows = [row for row in session.archive.values() if row.lesson.key == key]
    return max(rows, key=lambda row: row.ledger_ref, default=None)


def _once_curated(session: GateSession, key: str) -> Curated | None:
    rows = [row for row in session.archive.values() if row.lesson.key == key and row.curated]
    return max(rows, key=lambda row: row.ledger_ref).curated if rows else None


def _heir(session: GateSession, key: str) -> str:
    """Return the key of the lesson that took its place, curated or gone itself."""
    gone = (row.curated for row in session.archive.values() if row.curated)
    rows: Sequence[Curated] = (*session.curated.values(), *gone)
    return next((row.key for row in rows if row.supersedes == key), "")


def _snapshots_since(state: Path, domain: str, moment: str) -> list[str]:
    """Return the names of the snapshots taken since; a name starts with its time."""
    least = "".join(letter for letter in moment if letter not in "-:").removesuffix("Z")
    names = (path.name for path in list_snapshots(state, domain))
    return [name.split(".")[0] for name in names if name >= least]


def _recalled(path: Path | None, row: Curated) -> str:
    if path is None:
        return "yes: recall reads the server"
    try:
        published = read_published(path)
    except LessonsError as error:
        return f"no: {error}"
    if published is not None and row.key in published.keys:
        return f"yes: published, since {row.since[:10]}"
    return f"no: not published, run `lessons publish --domain {row.lesson.domain}`"


def _record(session: GateSession, key: str) -> dict[str, int]:
    """Return the uses that showed the lesson, and what thumbs and tools said."""
    uses = [use for use in session.uses.of_keys([key]).values() if key in use.keys]
    rated = [use for use in uses if not use.rated_keys or key in use.rated_keys]
    return {
        "uses": len(uses),
        "users": len({use.user_ref for use in uses if use.user_ref}),
        "up": sum(use.rating == "up" for use in rated),
        "down": sum(use.rating == "down" for use in rated),
        "tools_ok": sum(use.tools == "ok" for use in uses),
        "tools_failed": sum(use.tools == "failed" for use in uses),
    }
