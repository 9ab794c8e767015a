"""What a store holds, read back from its files and collections: `lessons status --check`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from lessons_loop.deploy.status.facts import DomainStatus, Hidden, StoreStatus
from lessons_loop.deploy.status.hidden import hidden_lessons, other_setting
from lessons_loop.deploy.status.quick import salt_lost
from lessons_loop.deploy.status.runs import add_last_run, add_operations, ranked
from lessons_loop.deploy.status.waiting import spool_status
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.published import read_published
from lessons_loop.filter.server import ServerAddress
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.forget.forgotten import Forgotten
from lessons_loop.promote.proof.summary import proven_as_dict
from lessons_loop.promote.runs.summary import (
    Summary,
    judges_by_key,
    lesson_records,
    summarise,
)
from lessons_loop.promote.session import GateSession, GateSettings, open_gate
from lessons_loop.promote.state import existing_store, locate
from lessons_loop.promote.store.server_place import ServerStore

SHOWN_PROBLEMS = 3


def domains_of(paths: StorePaths) -> list[str]:
    """Return the domains a store has published files for."""
    return sorted(file.stem for file in paths.published("x").parent.glob("*.lessons"))


def read_status(store: str, state: Path | None, domains: Sequence[str]) -> StoreStatus:
    """Read a store; what cannot be read becomes a problem. Raise StoreError without a store."""
    paths = existing_store(store)
    if isinstance(paths, ServerAddress):
        return read_server_status(store, state, domains)
    found = spool_status(str(paths.root), paths)
    summaries: list[Summary] = []
    names = list(domains or domains_of(paths))
    for name in names:  # grows: a domain whose published file is gone is known to the gate alone
        domain = DomainStatus(name)
        found.domains.append(domain)
        read_published_part(paths, domain, found.problems)
        try:
            with open_gate(GateSettings(store, name, state, dry_run=True)) as session:
                summaries.append(read_gate_part(session, domain, found))
                kept = {header.domain for header in session.holdings.headers()}
            names += () if domains else sorted(kept - {*names})
        except LessonsError as error:
            found.problems.append(f"{name}: {error}")
    if not paths.salt.is_file() and not os.environ.get("LESSONS_SALT", "").strip():
        found.problems.append(salt_lost(paths))
    return finished(found, locate(store, state).state, summaries, domains)


def finished(
    found: StoreStatus, state: Path, summaries: Sequence[Summary], domains: Sequence[str]
) -> StoreStatus:
    """Add what the state directory tells, and what is hidden."""
    found.checked = True
    add_operations(found, state, os.environ, domains)
    found.hidden += hidden_lessons(found, summaries)
    found.notes += other_setting(summaries, os.environ)
    found.tell_schema()
    found.problems = list(dict.fromkeys(found.problems))
    return found


def read_server_status(store: str, state: Path | None, domains: Sequence[str]) -> StoreStatus:
    """Read a store on a server, where recall reads curated itself; raise StoreError."""
    place = locate(store, state)
    found = spool_status(place.title, None)
    summaries: list[Summary] = []
    for name in domains or (place.domains() if isinstance(place, ServerStore) else ()):
        domain = DomainStatus(name)
        found.domains.append(domain)
        try:
            with open_gate(GateSettings(store, name, state, dry_run=True)) as session:
                header, created = session.holdings.header, session.created
                summaries.append(read_gate_part(session, domain, found))
        except LessonsError as error:
            found.problems.append(f"{name}: {error}")
            continue
        if created:
            found.problems.append(
                f"{name}: is not in this store: run `lessons init` if the name is right"
            )
        domain.published = domain.curated
        domain.floor = header.floor if header.floor >= 0 else None
        domain.embedding = header.fingerprint.name if header.fingerprint else ""
        if header.calibrated_rev != header.rev:
            found.problems.append(
                f"{name}: the floors are older than the lessons:"
                f" run `lessons publish --domain {name}`"
            )
    return finished(found, place.state, summaries, domains)


def read_published_part(paths: StorePaths, domain: DomainStatus, problems: list[str]) -> None:
    """Fill in what recall reads."""
    try:
        published = read_published(paths.published(domain.domain))
    except LessonsError as error:
        problems.append(f"{domain.domain}: {error}")
        return
    if published is None:
        there = ", ".join(domains_of(paths)) or "no domain"
        problems.append(
            f"{domain.domain}: nothing is published (this store has {there}):"
            f" run `lessons publish --domain {domain.domain}` if the name is right"
        )
        return
    header = published.header
    domain.published, domain.floor = header.count, header.floor
    domain.embedding = header.fingerprint.name if header.fingerprint else ""


def read_gate_part(session: GateSession, domain: DomainStatus, found: StoreStatus) -> Summary:
    """Fill in what the gate holds, and the ledger without the lines of this reading itself."""
    records = lesson_records(session.curated.values(), judges_by_key(session.state, domain.domain))
    summary = summarise(session, records)
    found.records[domain.domain] = ranked(records)
    domain.curated, domain.held = summary.curated, summary.held
    domain.archive, domain.oldest_waiting = summary.archive, summary.oldest
    domain.used, domain.hits = summary.used, summary.hits
    domain.successes, domain.failures = summary.successes, summary.failures
    domain.proofs = proven_as_dict(summary.proofs)
    model = session.holdings.header.fingerprint
    domain.schema = session.holdings.header.schema_version
    domain.fingerprint = model.model_dump(mode="json") if model else None
    read_ledger_part(session, found)
    if domain.published is not None and domain.published != domain.curated:
        found.problems.append(
            f"{domain.domain}: {domain.curated} curated, but {domain.published} published:"
            f" run `lessons publish --domain {domain.domain}`"
        )
    domain.candidates = len(session.candidates())
    domain.unreadable = session.unreadable
    domain.events = len(session.events().usages)
    found.hidden += lost_vectors(session)
    return summary


def read_ledger_part(session: GateSession, found: StoreStatus) -> None:
    """Verify the whole ledger."""
    entries = [entry for entry in session.ledger.entries() if entry.run != session.run]
    problems = session.ledger.verify(Forgotten.load(session.state).payloads)
    found.ledger_lines = found.ledger_checked = len(entries)
    found.ledger_verified = not problems
    found.problems += [f"ledger: {problem}" for problem in first_few(problems)]
    add_last_run(found, [entry for entry in entries if entry.domain == session.domain])


def lost_vectors(session: GateSession) -> list[Hidden]:
    """Return the lessons whose vectors are lost: recall goes on with what is published."""
    try:
        session.nearest_vectors()
    except LessonsError as error:
        again = f"lessons reembed --domain {session.domain}"
        return [Hidden(session.domain, len(session.curated), str(error), again)]
    return []


def first_few(problems: Sequence[str]) -> list[str]:
    """Return the first problems and how many more there are: one cause breaks every line."""
    more = len(problems) - SHOWN_PROBLEMS
    rest = [f"{more} more, listed by `lessons verify --json`"] if more > 0 else []
    return [*problems[:SHOWN_PROBLEMS], *rest]
