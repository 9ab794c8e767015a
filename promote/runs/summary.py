"""What a domain looked like when the last gate closed it, one small file beside the ledger.

`<state>/summary/<domain>.json` and, for lessons that were used, `<domain>.records.jsonl`.
Written at the end of every session that may write; `lessons status`, the line about waiting
candidates and the report read it instead of the store. Covered: a missing, torn or older
file is none. Not covered: what changed since; `head_n` and `rev` let a reader see it.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.schema import FIRST_SCHEMA
from lessons_loop.promote.clock import iso, parse_iso
from lessons_loop.promote.decay.judged import STYLE_REASONS
from lessons_loop.promote.proof.summary import ProofSummary, proof_summary

if TYPE_CHECKING:
    from lessons_loop.filter.models import Curated
    from lessons_loop.promote.records import Archived
    from lessons_loop.promote.session import GateSession

FOLDER = "summary"
NAMED_ROWS = 20
_JUDGES = f"""
select shown.key, count(distinct coalesce(json_extract(uses.row, '$.user_ref'), ''))
from shown join uses on uses.id = shown.id
where json_extract(uses.row, '$.rating') != ''
  and json_extract(uses.row, '$.rating_reason') not in ({", ".join("?" * len(STYLE_REASONS))})
  and (json_array_length(uses.row, '$.rated_keys') = 0 or shown.key in
    (select value from json_each(uses.row, '$.rated_keys')))
group by shown.key
"""
"""As `judged.judged`: a matter of style judges nothing, a comment only what it names."""


class LessonRecord(BaseModel):
    """How a curated lesson did."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    key: str
    text: str = ""
    kind: str = ""
    source: str = ""
    hits: int = 0
    successes: int = 0
    failures: int = 0
    judges: int = 0
    """Distinct users whose thumbs judged it."""
    last_used: str = ""

    @property
    def judged(self) -> int:
        """Uses that were judged."""
        return self.successes + self.failures


class Summary(BaseModel):
    """One domain's counts."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    domain: str
    at: str = ""
    run: str = ""
    store: str = ""
    head_n: int = 0
    head_hash: str = ""
    rev: int = 0
    schema_version: int = FIRST_SCHEMA
    curated: int = 0
    used: int = 0
    """Curated lessons that were ever shown in a chat."""
    hits: int = 0
    successes: int = 0
    failures: int = 0
    archive: dict[str, int] = Field(default_factory=dict)
    """Archived rows by status."""
    held: int = 0
    """Held lessons nobody decided on since."""
    oldest_held: str = ""
    candidates: int | None = None
    """Rows in staging; None: could not be looked at."""
    oldest_candidate: str = ""
    unreadable: int = 0
    """Curated rows that do not read: edited by hand or forged."""
    unreadable_rows: tuple[str, ...] = ()
    model: str = ""
    dimension: int = 0
    embedding: str = ""
    """The model's fingerprint as JSON; a name alone does not tell models apart."""
    calibrated: bool = True
    proofs: ProofSummary = ProofSummary()
    """What was measured about the curated lessons."""

    @property
    def waiting(self) -> int:
        """Candidates and held lessons a person may decide on."""
        return (self.candidates or 0) + self.held

    @property
    def oldest(self) -> str:
        """When the oldest of them came."""
        return earliest([self.oldest_held, self.oldest_candidate])


def earliest(moments: Iterable[str]) -> str:
    """Return the earliest of the moments, "" without one."""
    known = [(moment, text) for text in moments if (moment := parse_iso(text))]
    return min(known)[1] if known else ""


def summary_path(state: Path, domain: str) -> Path:
    """Return where a domain's summary lies."""
    return state / FOLDER / f"{domain}.json"


def records_path(state: Path, domain: str) -> Path:
    """Return where the records of a domain's used lessons lie."""
    return state / FOLDER / f"{domain}.records.jsonl"


def read_summaries(state: Path, domains: Sequence[str] = ()) -> list[Summary]:
    """Return the summaries there are, by domain; what cannot be read is left out."""
    found = []
    for path in sorted((state / FOLDER).glob("*.json")):
        with suppress(OSError, ValidationError):
            one = Summary.model_validate_json(path.read_bytes())
            if one.domain == path.stem and (not domains or one.domain in domains):
                found.append(one)
    return found


def read_records(state: Path, domain: str) -> list[LessonRecord]:
    """Return the records of a domain's used lessons; lines that are none are left out."""
    found = []
    with suppress(OSError):
        for line in records_path(state, domain).read_bytes().splitlines():
            with suppress(ValidationError):
                found.append(LessonRecord.model_validate_json(line))
    return found


def write_summary(session: GateSession) -> None:
    """Write the session's domain down; a failure is no error, the next session writes again."""
    with suppress(LessonsError, OSError):
        _write(session)


def _write(session: GateSession) -> None:
    from lessons_loop.promote.files import private_folder, write_atomic

    records = lesson_records(session.curated.values(), judges_by_key(session.state, session.domain))
    lines = b"".join(record.model_dump_json().encode() + b"\n" for record in records)
    path = summary_path(session.state, session.domain)
    private_folder(path.parent)
    fresh = summarise(session, records)
    if _stands(session, fresh, records):
        return  # a session that changed nothing leaves every byte
    write_atomic(records_path(session.state, session.domain), lines)
    write_atomic(path, fresh.model_dump_json(indent=1).encode() + b"\n")


def _stands(session: GateSession, fresh: Summary, records: Sequence[LessonRecord]) -> bool:
    """Say whether all but moment and run of a summary is on disk."""
    own = {"at": fresh.at, "run": fresh.run}
    found = [one.model_copy(update=own) for one in read_summaries(session.state, [session.domain])]
    return found == [fresh] and read_records(session.state, session.domain) == list(records)


def summarise(session: GateSession, records: Sequence[LessonRecord]) -> Summary:
    """Return what the session's domain looks like now."""
    header, held = session.holdings.header, session.held()
    model = header.fingerprint
    published = session.store.published(session.domain) is not None
    return Summary(
        domain=session.domain,
        at=iso(session.now()),
        run=session.run,
        store=session.store.title,
        head_n=header.head_n,
        head_hash=header.head_hash,
        rev=header.rev,
        schema_version=header.schema_version,
        curated=len(session.curated),
        used=len(records),
        hits=sum(record.hits for record in records),
        successes=sum(record.successes for record in records),
        failures=sum(record.failures for record in records),
        archive=dict(Counter(row.status.value for row in session.archive.values())),
        held=len(held),
        oldest_held=earliest(first_seen(row) for row in held),
        unreadable=len(session.unreadable_curated),
        unreadable_rows=tuple(sorted(session.unreadable_curated)[:NAMED_ROWS]),
        model=model.name if model else "",
        dimension=model.dimension if model else 0,
        embedding=header.embedding,
        calibrated=published or header.calibrated_rev == header.rev,
        proofs=proof_summary(session.curated.values()),
    ).model_copy(update=staged_now(session))


def staged_now(session: GateSession) -> dict[str, object]:
    """Return what staging holds, nothing where it cannot be looked at."""
    from lessons_loop.promote.store.staged_look import look_at_staging

    try:
        look = look_at_staging(session.store, session.domain)
    except LessonsError:
        return {}
    return {"candidates": look.candidates, "oldest_candidate": look.oldest}


def first_seen(row: Archived) -> str:
    """Return when a held lesson was first seen; one without a sighting when it was held."""
    return earliest(seen.at for seen in row.all_sightings) or row.at


def lesson_records(lessons: Iterable[Curated], judges: dict[str, int]) -> list[LessonRecord]:
    """Return the records of lessons that were used, by key."""
    return [
        LessonRecord(
            key=row.key,
            text=row.lesson.text,
            kind=row.lesson.kind.value,
            source=row.lesson.source,
            hits=row.hits,
            successes=row.successes,
            failures=row.failures,
            judges=judges.get(row.key, 0),
            last_used=row.last_used,
        )
        for row in sorted(lessons, key=lambda row: row.key)
        if row.hits or row.successes or row.failures
    ]


def judges_by_key(state: Path, domain: str) -> dict[str, int]:
    """Return how many users judged each lesson, from the use register; none without one."""
    path = state / "uses" / f"{domain}.sqlite"
    if not path.is_file():
        return {}
    try:
        address = f"file:{quote(str(path))}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=1)) as file:
            return {
                str(key): int(count) for key, count in file.execute(_JUDGES, sorted(STYLE_REASONS))
            }
    except (sqlite3.Error, ValueError):
        return {}
