"""What `lessons doctor` says about a lesson store on a Chroma server."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from lessons_loop.deploy.checks import Finding, Level
from lessons_loop.filter.errors import StoreError, StoreMissing
from lessons_loop.filter.server import (
    ServerAddress,
    open_server,
    parse_server,
    server_errors,
    server_token,
)
from lessons_loop.filter.store import collection_names

DATABASES = ("curated", "staging", "gate")
SECONDS = 5.0


@dataclass(frozen=True)
class ServerFacts:
    """What a look at the server tells."""

    address: str
    collections: dict[str, tuple[str, ...]]
    """By database; a missing database is missing here."""
    refused: dict[str, str]
    """Databases that could not be read, with the reason."""
    headers: dict[str, dict[str, Any]]
    """Curated's metadata by collection."""


def look_at_server(store: str) -> ServerFacts:
    """Ask a Chroma server what it holds; raise StoreUnreachable when nothing answers."""
    address, token = parse_server(store), server_token(os.environ.get("LESSONS_CHROMA_TOKEN", ""))
    facts = ServerFacts(address.url, {}, {}, {})
    for database in DATABASES:
        look_at_database(address, token, database, facts)
    return facts


def look_at_database(address: ServerAddress, token: str, database: str, facts: ServerFacts) -> None:
    """Add what one database holds; raise StoreUnreachable."""
    from lessons_loop.filter.errors import StoreUnreachable

    try:
        with (
            server_errors(f"database {database}"),
            closing(open_server(address, database, token=token, seconds=SECONDS)) as client,  # type: ignore[type-var]
        ):
            found = list(client.list_collections())
    except StoreMissing:
        return
    except StoreUnreachable:
        raise
    except StoreError as error:
        facts.refused[database] = str(error)
        return
    facts.collections[database] = tuple(sorted(one.name for one in found))
    if database == "curated":
        facts.headers.update({one.name: dict(one.metadata or {}) for one in found})


def server_findings(facts: ServerFacts, domains: Sequence[str]) -> list[Finding]:
    """Say what the server has and lacks."""
    found = [Finding("server", Level.OK, f"{facts.address} answers")]
    remedy = f"lessons init --store {facts.address}"
    for database in DATABASES:
        if reason := facts.refused.get(database):
            found.append(Finding("databases", Level.PROBLEM, f"{database}: {reason}"))
        elif database not in facts.collections:
            text = f"database {database} is missing"
            found.append(Finding("databases", Level.PROBLEM, text, remedy))
    if all(finding.level is Level.OK for finding in found):
        found.append(Finding("databases", Level.OK, f"{', '.join(DATABASES)} are there"))
    return found + [one for domain in domains for one in collection_findings(facts, domain, remedy)]


def collection_findings(facts: ServerFacts, domain: str, remedy: str) -> list[Finding]:
    """Say which of a domain's collections are missing."""
    names = collection_names(domain)
    places = {"curated": "curated", "candidates": "staging", "events": "staging", "archive": "gate"}
    missing = [
        f"{database}/{names[which]}"
        for which, database in places.items()
        if database in facts.collections and names[which] not in facts.collections[database]
    ]
    if not missing:
        return []
    text = f"collections are missing: {', '.join(missing)}"
    return [Finding(domain, Level.PROBLEM, text, f"{remedy} --domain {domain}")]


def domains_there(facts: ServerFacts) -> list[str]:
    """Return the domains whose curated collection the server has."""
    return sorted(
        name.removesuffix("-lessons") for name in facts.headers if name.endswith("-lessons")
    )
