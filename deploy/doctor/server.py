"""What `lessons doctor` says about a lesson store on a Chroma server."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from lessons_loop.deploy.doctor.findings import Finding, Level
from lessons_loop.filter.errors import StoreError, StoreMissing, StoreUnreachable
from lessons_loop.filter.server import (
    ServerAddress,
    open_server,
    parse_server,
    server_errors,
    server_token,
)
from lessons_loop.filter.store import collection_names
from lessons_loop.promote.store.server_lock import LOCK_TERM, Holder, lock_name, server_time
from lessons_loop.promote.store.server_place import DATABASES

SECONDS = 5.0
LOCK = lock_name("")


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
    held: list[str]
    """Locks of gates at work, with their holders."""


def look_at_server(store: str) -> ServerFacts:
    """Ask a Chroma server what it holds; raise StoreUnreachable when nothing answers."""
    address, token = parse_server(store), server_token(os.environ.get("LESSONS_CHROMA_TOKEN", ""))
    facts = ServerFacts(address.url, {}, {}, {}, [])
    for database in DATABASES:
        look_at_database(address, token, database, facts)
    return facts


def look_at_database(address: ServerAddress, token: str, database: str, facts: ServerFacts) -> None:
    """Add what one database holds; raise StoreUnreachable."""
    try:
        with (
            server_errors(f"lesson store {address.url}"),
            closing(open_server(address, database, token=token, seconds=SECONDS)) as client,  # type: ignore[type-var]
        ):
            found = list(client.list_collections())
            if database == "gate":
                facts.held.extend(held_locks(client, found))
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


def held_locks(client: Any, collections: Sequence[Any]) -> list[str]:
    """Return the locks that are good now, by the server's own clock."""
    held = []
    for collection in collections:
        if collection.name.endswith(LOCK):
            holder = Holder.of(collection)
            if not holder.is_gone(server_time(client), LOCK_TERM):
                held.append(f"{collection.name} is held by {holder.line}")
    return held


def server_findings(facts: ServerFacts, domains: Sequence[str]) -> list[Finding]:
    """Say what the server has and lacks."""
    found = [Finding("server", Level.OK, f"{facts.address} answers"), *database_findings(facts)]
    held = "; ".join(facts.held)
    if "gate" in facts.collections:
        found.append(Finding("locks", Level.WARNING if held else Level.OK, held or "free"))
    return found + [one for domain in domains for one in collection_findings(facts, domain)]


def database_findings(facts: ServerFacts) -> list[Finding]:
    """Say which databases are missing, and which cannot be read."""
    found = [
        Finding("databases", Level.PROBLEM, f"{database}: {reason}")
        for database, reason in facts.refused.items()
    ]
    known = {*facts.refused, *facts.collections}
    if missing := [database for database in DATABASES if database not in known]:
        text = f"missing: {', '.join(missing)}"
        found.append(Finding("databases", Level.PROBLEM, text, init_remedy(facts)))
    return found or [Finding("databases", Level.OK, f"{', '.join(DATABASES)} are there")]


def init_remedy(facts: ServerFacts) -> str:
    """Return the command that makes what is missing."""
    return f"lessons init --store {shlex.quote(facts.address)}"


def collection_findings(facts: ServerFacts, domain: str) -> list[Finding]:
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
    return [Finding(domain, Level.PROBLEM, text, f"{init_remedy(facts)} --domain {domain}")]


def domains_there(facts: ServerFacts) -> list[str]:
    """Return the domains whose curated collection the server has."""
    return sorted(
        name.removesuffix("-lessons") for name in facts.headers if name.endswith("-lessons")
    )
