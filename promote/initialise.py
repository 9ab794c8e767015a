"""Make a store: folders, salt, collections of each domain, state, published files.

Running it again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from lessons_loop.filter.embed import Embedder
from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.store import StorePaths, collection_names, ensure_salt, staging_session
from lessons_loop.promote.candidates import STAGING_SECONDS
from lessons_loop.promote.clock import utc_now
from lessons_loop.promote.files import file_errors
from lessons_loop.promote.repair import clear_sound_marker
from lessons_loop.promote.rows import create_cosine, find_collection
from lessons_loop.promote.session import GateSettings, open_gate
from lessons_loop.promote.state import clean_domain, store_paths


class InitReport(NamedTuple):
    """Which domains were made, and which were there."""

    created: tuple[str, ...]
    present: tuple[str, ...]


def initialise(
    store: str,
    domains: Sequence[str],
    embedder: Embedder | None = None,
    state: Path | None = None,
    *,
    now: Callable[[], datetime] = utc_now,
) -> InitReport:
    """Make what is missing; raise StoreError, LockHeld, Paused, EmbeddingMismatch."""
    names = tuple(dict.fromkeys(clean_domain(name) for name in domains))
    if not names:
        raise StoreError("no domain given: pass --domain or set LESSONS_DOMAIN")
    paths = store_paths(store)
    created = []
    for name in names:
        settings = GateSettings(store, name, state, embedder)
        with open_gate(settings, now=now) as session:
            if session.created:
                created.append(name)
        ensure_staging(paths, name)
    with file_errors(paths.salt):
        ensure_salt(paths)
    return InitReport(tuple(created), tuple(name for name in names if name not in created))


def ensure_staging(paths: StorePaths, domain: str) -> None:
    """Create a domain's staging collections where they are missing."""
    names = collection_names(domain)
    clear_sound_marker(paths, STAGING_SECONDS)
    with file_errors(paths.staging), staging_session(paths, STAGING_SECONDS) as client:
        for name in (names["candidates"], names["events"]):
            if find_collection(client, name) is None:
                create_cosine(client, name)
