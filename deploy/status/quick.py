"""A store's status in well under a second: from what the gate wrote down, never from Chroma.

Read are the summaries, the published files' first lines, the ledger's tail, the run
register, and live counts of staging. Covered: a store that is locked, damaged or down: its
part is unknown, the rest is said. Not covered: changes made behind the gate's back
(`lessons status --check`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from lessons_loop.deploy.status.facts import DomainStatus, StoreStatus
from lessons_loop.deploy.status.hidden import hidden_lessons, other_setting
from lessons_loop.deploy.status.runs import add_ledger, add_operations, ranked
from lessons_loop.deploy.status.waiting import spool_status
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.published import PublishedHeader, parse_header
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.proof.summary import proven_as_dict
from lessons_loop.promote.runs.summary import Summary, earliest, read_records, read_summaries
from lessons_loop.promote.state import existing_store, locate
from lessons_loop.promote.store.places import FolderStore
from lessons_loop.promote.store.server_place import ServerStore
from lessons_loop.promote.store.staged_look import Look, look_in_folder, look_on_server

HEADER_LIMIT = 2**20


def quick_status(store: str, state: Path | None, domains: Sequence[str]) -> StoreStatus | None:
    """Return the status, None where no gate has left a summary of a domain yet.

    Raises StoreError without a store.
    """
    existing_store(store)
    place = locate(store, state)
    summaries = {one.domain: one for one in read_summaries(place.state)}
    published = published_domains(place)
    names = list(domains) or sorted({*summaries, *published})
    if not names or any(name not in summaries for name in names):
        return None
    found = spool_status(place.title, None if isinstance(place, ServerStore) else place.paths)
    for name in names:
        add_domain(found, place, summaries[name])
    add_ledger(found, place.state, [summaries[name] for name in names], domains)
    add_operations(found, place.state, os.environ, domains)
    add_salt(found, place)
    found.hidden += hidden_lessons(found, [summaries[name] for name in names])
    found.notes += other_setting([summaries[name] for name in names], os.environ)
    found.tell_schema()
    found.problems = list(dict.fromkeys(found.problems))
    return found


def published_domains(place: FolderStore | ServerStore) -> list[str]:
    """Return the domains a folder has published files for."""
    if isinstance(place, ServerStore):
        return []
    return [file.stem for file in place.paths.published("x").parent.glob("*.lessons")]


def add_salt(found: StoreStatus, place: FolderStore | ServerStore) -> None:
    """Tell of a folder's lost salt."""
    if isinstance(place, ServerStore) or os.environ.get("LESSONS_SALT", "").strip():
        return
    if not place.paths.salt.is_file():
        found.problems.append(salt_lost(place.paths))


def salt_lost(paths: StorePaths) -> str:
    """Return the problem of a lost salt."""
    return (
        f"{paths.salt} is missing: restore it, or run `lessons init`; "
        "with a new one people counted before count again"
    )


def add_domain(found: StoreStatus, place: FolderStore | ServerStore, summary: Summary) -> None:
    """Add one domain: the summary, what recall reads, and what waits now."""
    domain = DomainStatus(
        summary.domain,
        curated=summary.curated,
        held=summary.held,
        embedding=summary.model,
        archive=summary.archive,
        used=summary.used,
        hits=summary.hits,
        successes=summary.successes,
        failures=summary.failures,
        proofs=proven_as_dict(summary.proofs),
        summary_at=summary.at,
        schema=summary.schema_version,
    )
    found.domains.append(domain)
    found.records[summary.domain] = ranked(read_records(place.state, summary.domain))
    if isinstance(place, ServerStore):
        look = add_served(found, domain, place, summary)
    else:
        add_published(found, domain, place.paths, summary)
        look = looked(found, domain, place.paths)
    if look is not None:
        domain.candidates, domain.events = look.candidates, look.events
        domain.oldest_waiting = earliest([summary.oldest_held, look.oldest])


def looked(found: StoreStatus, domain: DomainStatus, paths: StorePaths) -> Look | None:
    """Return what waits in a folder's staging, None where it cannot be seen now."""
    try:
        return look_in_folder(paths.staging, domain.domain)
    except LessonsError as error:
        found.notes.append(f"{domain.domain}: {error}")
        return None


def add_served(
    found: StoreStatus, domain: DomainStatus, place: ServerStore, summary: Summary
) -> Look | None:
    """Add what a server says now; one that does not answer is asked once only."""
    if any("lesson store" in problem for problem in found.problems):
        return None
    try:
        served = look_on_server(place, domain.domain)
    except LessonsError as error:
        found.problems.append(str(error))
        return None
    name = domain.domain
    if served.header is None:
        found.problems.append(f"{name}: is not in this store: run `lessons init` if that is right")
        return served.staged
    domain.published = served.curated
    floor = served.header.get("floor", -1)
    domain.floor = float(floor) if isinstance(floor, int | float) and floor >= 0 else None
    rev, calibrated = served.header.get("rev"), served.header.get("calibrated_rev")
    if rev != calibrated:
        found.problems.append(
            f"{name}: the floors are older than the lessons: run `lessons publish --domain {name}`"
        )
    if rev != summary.rev or served.curated != summary.curated + summary.unreadable:
        found.notes.append(f"{name}: changed since the last gate: run `lessons status --check`")
    return served.staged


def add_published(
    found: StoreStatus, domain: DomainStatus, paths: StorePaths, summary: Summary
) -> None:
    """Add what recall reads of a folder."""
    name = domain.domain
    try:
        header = published_header(paths.published(name))
    except LessonsError as error:
        found.problems.append(f"{name}: {error}")
        return
    again = f"run `lessons publish --domain {name}`"
    if header is None:
        found.problems.append(f"{name}: nothing is published: {again}")
        return
    domain.published, domain.floor = header.count, header.floor
    if header.count != summary.curated:
        found.problems.append(
            f"{name}: {summary.curated} curated, but {header.count} published: {again}"
        )
    elif header.rev != summary.rev:
        found.problems.append(f"{name}: published is older than curated: {again}")


def published_header(path: Path) -> PublishedHeader | None:
    """Return the first line of a published file; raise LessonsError when it is none."""
    try:
        with path.open("rb") as file:
            line = file.readline(HEADER_LIMIT)
            header = parse_header(path, line)
            whole = len(line) + body_bytes(header) == os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LessonsError(f"{path} cannot be read: {error.strerror}") from None
    if not whole:
        raise LessonsError(f"{path} is not as long as it says: run `lessons publish`")
    return header


def body_bytes(header: PublishedHeader) -> int:
    """Return how long the rest of a published file has to be."""
    lessons = header.lessons_bytes
    return lessons + -lessons % 64 + 4 * header.count * header.dimension
