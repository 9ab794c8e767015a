"""What a store holds, read back from its files and collections, for `lessons status`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lessons_loop.deploy.checks import many
from lessons_loop.deploy.doctor_render import beside
from lessons_loop.filter.errors import LessonsError
from lessons_loop.filter.published import read_published
from lessons_loop.filter.server import ServerAddress
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.server_place import ServerStore
from lessons_loop.promote.session import GateSession, GateSettings, open_gate
from lessons_loop.promote.state import existing_store, locate

DECAY = "no decay signal yet"
SHOWN_PROBLEMS = 3
COLUMN = 13
"""Where the texts begin."""


@dataclass
class DomainStatus:
    """One domain's counts; None: could not be read, `problems` says why."""

    domain: str
    curated: int | None = None
    published: int | None = None
    """What recall reads."""
    candidates: int | None = None
    unreadable: int = 0
    """Rows of staging that are no candidates."""
    held: int | None = None
    embedding: str = ""
    fingerprint: dict[str, Any] | None = None
    """The embedding model the stored vectors came from."""
    floor: float | None = None


@dataclass
class StoreStatus:
    """A whole store."""

    store: str
    domains: list[DomainStatus]
    spool: int | None
    """None: a server's plugin keeps its spool where it runs."""
    spool_bad: int
    """Spool files that were none of ours, kept in `spool/bad`."""
    last_run: str = ""
    ledger_lines: int | None = None
    """None: not read."""
    ledger_verified: bool = False
    decay: str = DECAY
    problems: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return everything, for machines."""
        return asdict(self)


def domains_of(paths: StorePaths) -> list[str]:
    """Return the domains a store has published files for."""
    return sorted(file.stem for file in paths.published("x").parent.glob("*.lessons"))


def read_status(store: str, state: Path | None, domains: Sequence[str]) -> StoreStatus:
    """Read a store; what cannot be read becomes a problem. Raise StoreError without a store."""
    paths = existing_store(store)
    if isinstance(paths, ServerAddress):
        return read_server_status(store, state, domains)
    bad = len(list((paths.spool / "bad").glob("*"))) if paths.spool.is_dir() else 0
    found = StoreStatus(str(paths.root), [], Spool(paths).waiting(), bad)
    names = list(domains or domains_of(paths))
    for name in names:  # grows: a domain whose published file is gone is known to the gate alone
        domain = DomainStatus(name)
        found.domains.append(domain)
        read_published_part(paths, domain, found.problems)
        try:
            with open_gate(GateSettings(store, name, state, dry_run=True)) as session:
                read_gate_part(session, domain, found)
                kept = {header.domain for header in session.holdings.headers()}
            names += () if domains else sorted(kept - {*names})
        except LessonsError as error:
            found.problems.append(f"{name}: {error}")
    if not paths.salt.is_file() and not os.environ.get("LESSONS_SALT", "").strip():
        found.problems.append(
            f"{paths.salt} is missing: restore it, or run `lessons init`; "
            "with a new one people counted before count again"
        )
    found.problems = list(dict.fromkeys(found.problems))
    return found


def read_server_status(store: str, state: Path | None, domains: Sequence[str]) -> StoreStatus:
    """Read a store on a server, where recall reads curated itself; raise StoreError."""
    place = locate(store, state)
    found = StoreStatus(place.title, [], None, 0)
    for name in domains or (place.domains() if isinstance(place, ServerStore) else ()):
        domain = DomainStatus(name)
        found.domains.append(domain)
        try:
            with open_gate(GateSettings(store, name, state, dry_run=True)) as session:
                header, created = session.holdings.header, session.created
                read_gate_part(session, domain, found)
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
    found.problems = list(dict.fromkeys(found.problems))
    return found


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


def read_gate_part(session: GateSession, domain: DomainStatus, found: StoreStatus) -> None:
    """Fill in what the gate holds, and the ledger without the lines of this reading itself."""
    domain.curated = len(session.curated)
    domain.held = len(session.held())
    model = session.holdings.header.fingerprint
    domain.fingerprint = model.model_dump(mode="json") if model else None
    entries = [entry for entry in session.ledger.entries() if entry.run != session.run]
    found.ledger_lines = len(entries)
    problems = session.ledger.verify()
    if domain.published is not None and domain.published != domain.curated:
        found.problems.append(
            f"{domain.domain}: {domain.curated} curated, but {domain.published} published:"
            f" run `lessons publish --domain {domain.domain}`"
        )
    found.ledger_verified = not problems
    found.problems += [f"ledger: {problem}" for problem in first_few(problems)]
    if entries:
        found.last_run = f"{entries[-1].at} {entries[-1].run}"
    domain.candidates = len(session.candidates())
    domain.unreadable = session.unreadable


def first_few(problems: Sequence[str]) -> list[str]:
    """Return the first problems and how many more there are: one cause breaks every line."""
    more = len(problems) - SHOWN_PROBLEMS
    rest = [f"{more} more, listed by `lessons verify --json`"] if more > 0 else []
    return [*problems[:SHOWN_PROBLEMS], *rest]


def render_status(found: StoreStatus, width: int = 80) -> str:
    """Return the status as aligned lines of at most `width` columns."""
    lines = [("store", found.store)]
    for domain in found.domains:
        lines += domain_lines(domain)
    spool = f"{many(found.spool, 'record')} waiting for staging"
    spool = spool if found.spool is not None else "in Open WebUI's own data folder"
    lines.append(("spool", spool + (f", {found.spool_bad} unreadable" if found.spool_bad else "")))
    lines.append(("last run", found.last_run or "none"))
    verified = "verified" if found.ledger_verified else "NOT verified"
    known = found.ledger_lines is not None
    count = many(found.ledger_lines, "line")
    lines.append(("ledger", f"{count}, {verified}" if known else "not read"))
    lines.append(("decay", found.decay))
    lines += [("problem", problem) for problem in found.problems]
    return "\n".join(row for head, text in lines for row in beside(head, text, width, COLUMN))


def domain_lines(domain: DomainStatus) -> list[tuple[str, str]]:
    """Return one domain's lines."""
    counts = f"{shown(domain.curated)} curated ({shown(domain.published)} published)"
    staged = f"{many(domain.candidates, 'candidate')}, {shown(domain.held)} held"
    unreadable = f", {domain.unreadable} unreadable rows" if domain.unreadable else ""
    floor = "" if domain.floor is None else f", floor {domain.floor:.2f}"
    none = "none: recall is lexical" if domain.published else "none before the first lesson"
    embedding = domain.embedding or none
    return [
        (domain.domain, f"{counts}, {staged}{unreadable}"),
        ("", f"embedding {embedding}{floor}"),
    ]


def shown(count: int | None) -> str:
    """Return a count, `?` where it could not be read."""
    return "?" if count is None else str(count)
