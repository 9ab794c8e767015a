"""What a domain consists of and where it is weak: the reading behind `lessons audit`.

Counts by source, kind, producer, age and user; clusters of near copies; lessons never
recalled; lessons nothing reaches. No reference of a user or chat leaves this module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from lessons_loop.deploy.audit.near_copies import LEVELS, Cluster, clusters
from lessons_loop.deploy.audit.reach import Limits, Unreached, unreached
from lessons_loop.filter.embed import Vectors
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.models import Candidate, Curated
from lessons_loop.filter.published import PublishedSet
from lessons_loop.filter.recall_index import build_index
from lessons_loop.filter.server_shelf import CuratedServer
from lessons_loop.filter.shelves import PublishedFolder
from lessons_loop.promote.clock import parse_iso
from lessons_loop.promote.embedding.forms import NO_EMBEDDER
from lessons_loop.promote.gathering import Progress, no_progress
from lessons_loop.promote.records import Archived
from lessons_loop.promote.session import GateSession
from lessons_loop.promote.state import Located
from lessons_loop.promote.store.server_place import ServerStore

PLACES = ("curated", "candidate", "held", "rejected", "stale", "superseded")
AGES = ((7, "7 days"), (30, "30 days"), (90, "90 days"), (365, "1 year"))
OLDER = "older"
PEOPLE_SHOWN = 10


@dataclass(frozen=True)
class Entry:
    """One lesson, wherever it is, as it is counted."""

    key: str
    place: str
    kind: str
    source: str
    producer: str
    at: str
    hits: int = 0
    text: str = ""


@dataclass
class Audit:
    """A domain's audit."""

    domain: str
    counts: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    """By `kind`, `source`, `producer`, `age`: value to place to number."""
    places: dict[str, int] = field(default_factory=dict)
    users: dict[str, Any] = field(default_factory=dict)
    """`distinct`: people behind what waits; `sightings`: of the busiest, most first;
    `lessons`: curated ones by how many people showed them."""
    copies: list[dict[str, Any]] = field(default_factory=list)
    """Clusters: `level`, `nearest`, `keys`."""
    clusters: dict[str, int] = field(default_factory=dict)
    """Clusters by level."""
    never_recalled: list[str] = field(default_factory=list)
    """Keys of curated lessons no chat was given, oldest first."""
    unreached: list[dict[str, Any]] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    """Of every lesson named above, by key."""
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return everything, for machines."""
        return asdict(self)


def audit_domain(
    session: GateSession,
    place: Located,
    limits: Limits,
    embed: Callable[[list[str]], Vectors] | None,
    progress: Progress = no_progress,
) -> Audit:
    """Return a domain's audit; `embed` gives questions' unit rows. Raises StoreError."""
    now = session.now()
    staged = session.candidates()
    entries = entries_of(session, staged)
    found = Audit(session.domain)
    found.places = dict(Counter(entry.place for entry in entries))
    found.counts = counted(entries, now)
    found.users = people(staged, session.held(), session.curated.values())
    add_copies(found, session, progress)
    unused = sorted((e for e in entries if e.place == "curated" and not e.hits), key=_age)
    found.never_recalled = [entry.key for entry in unused]
    add_unreached(found, published(place, session.domain), limits, embed, progress)
    named = {*found.never_recalled, *(row["key"] for row in found.unreached)}
    named |= {key for row in found.copies for key in row["keys"]}
    found.texts = {entry.key: entry.text for entry in entries if entry.key in named}
    return found


def _age(entry: Entry) -> tuple[str, str]:
    return entry.at, entry.key


def entries_of(session: GateSession, staged: Sequence[Candidate]) -> list[Entry]:
    """Return every lesson there is; of one with several sightings in staging, the first."""
    producers = producers_of(session)
    first = {seen.lesson.key: seen for seen in reversed(staged)}
    found = [from_curated(row, producers) for row in session.curated.values()]
    found += [from_candidate(seen) for seen in first.values()]
    waiting = {row.id for row in session.held()}
    out = [row for row in session.archive.values() if row.status != "held" or row.id in waiting]
    return found + [from_archive(row, producers) for row in out]


def producers_of(session: GateSession) -> Mapping[int, str]:
    """Return the model that proposed what a ledger line took in, where its payload tells."""
    once = (row.curated for row in session.archive.values())
    wanted = {row.ledger_ref for row in (*session.curated.values(), *once) if row}
    found = {}
    for entry in session.ledger.entries():
        if entry.n in wanted and (payload := session.ledger.payload(entry)):
            seen = payload.get("candidates")
            first = seen[0] if isinstance(seen, list) and seen else None
            if isinstance(first, dict) and first.get("model"):
                found[entry.n] = f"{first['model']} ({first.get('prompt') or 'no version'})"
    return found


def from_curated(row: Curated, producers: Mapping[int, str]) -> Entry:
    """Return a curated lesson as it is counted."""
    lesson = row.lesson
    producer = producers.get(row.ledger_ref, lesson.source)
    return Entry(
        row.key,
        "curated",
        lesson.kind.value,
        lesson.source,
        producer,
        row.since,
        row.hits,
        lesson.text,
    )


def from_candidate(seen: Candidate) -> Entry:
    """Return a candidate as it is counted."""
    lesson = seen.lesson
    producer = f"{seen.model or 'unnamed'} ({seen.prompt or 'no version'})"
    place, kind = "candidate", lesson.kind.value
    return Entry(lesson.key, place, kind, lesson.source, producer, seen.at, 0, lesson.text)


def from_archive(row: Archived, producers: Mapping[int, str]) -> Entry:
    """Return an archived lesson as it is counted."""
    lesson, seen = row.lesson, row.all_sightings
    known = producers.get(row.curated.ledger_ref, lesson.source) if row.curated else lesson.source
    producer = from_candidate(seen[0]).producer if seen else known
    place, kind = row.status.value, lesson.kind.value
    return Entry(lesson.key, place, kind, lesson.source, producer, row.at, 0, lesson.text)


def counted(entries: Iterable[Entry], now: datetime) -> dict[str, dict[str, dict[str, int]]]:
    """Return how many lessons of each kind, source, producer and age are where."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for entry in entries:
        values = {
            "kind": entry.kind,
            "source": entry.source,
            "producer": entry.producer,
            "age": age_of(entry.at, now),
        }
        for what, value in values.items():
            places = found.setdefault(what, {}).setdefault(value, {})
            places[entry.place] = places.get(entry.place, 0) + 1
    return found


def age_of(at: str, now: datetime) -> str:
    """Return which bound of `AGES` a moment lies within."""
    moment = parse_iso(at)
    if moment is None:
        return "unknown"
    days = (now - moment).total_seconds() / 86_400
    return next((name for bound, name in AGES if days <= bound), OLDER)


def people(
    staged: Sequence[Candidate], held: Sequence[Archived], curated: Iterable[Curated]
) -> dict[str, Any]:
    """Return how many people are behind what waits and what is curated; numbers only."""
    sightings = [*staged, *(seen for row in held for seen in row.all_sightings)]
    by_user = Counter(seen.user_ref for seen in sightings if seen.user_ref)
    return {
        "distinct": len(by_user),
        "sightings": sorted(by_user.values(), reverse=True)[:PEOPLE_SHOWN],
        "lessons": dict(sorted(Counter(str(row.distinct_users) for row in curated).items())),
    }


def add_copies(found: Audit, session: GateSession, progress: Progress) -> None:
    """Add the clusters of near copies among curated lessons."""
    progress("comparing lessons", 0, len(session.curated))
    try:
        keys, vectors = session.nearest_vectors()
    except LessonsError as error:
        found.notes.append(str(error))
        return
    if not vectors.shape[1]:
        found.notes.append("no vectors yet: near copies are not looked for")
        return
    every = clusters(vectors)
    found.clusters = {f"{level:g}": sum(c.level == level for c in every) for level in LEVELS}
    found.copies = [as_cluster(cluster, keys) for cluster in every]


def as_cluster(cluster: Cluster, keys: Sequence[str]) -> dict[str, Any]:
    """Return a cluster with its lessons' keys."""
    return {
        "level": cluster.level,
        "nearest": cluster.nearest,
        "keys": [keys[row] for row in cluster.rows],
    }


def published(place: Located, domain: str) -> PublishedSet | None:
    """Return what recall reads of a domain; raise StoreError."""
    if not isinstance(place, ServerStore):
        return PublishedFolder(place.paths).fetch(domain, None).lessons
    with closing(CuratedServer(place.address, place.token)) as shelf:
        return shelf.fetch(domain, None).lessons


def add_unreached(
    found: Audit,
    shown: PublishedSet | None,
    limits: Limits,
    embed: Callable[[list[str]], Vectors] | None,
    progress: Progress,
) -> None:
    """Add the lessons that their own trigger does not bring."""
    if shown is None or not shown.keys:
        return
    index = build_index([shown])
    if embed is None and index.dimension:
        found.notes.append(f"{NO_EMBEDDER}; until then reach is judged by words alone")
    found.unreached = [as_unreached(one) for one in unreached(index, embed, limits, progress)]


def as_unreached(one: Unreached) -> dict[str, Any]:
    """Return one as plain values."""
    return one._asdict() | {"behind": list(one.behind)}
