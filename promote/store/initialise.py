"""Make a store: folders or databases, salt, collections of each domain, state, published files.

Running it again changes nothing.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from lessons_loop.filter.embed import Embedder
from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.store import StorePaths, ensure_salt
from lessons_loop.promote.clock import utc_now
from lessons_loop.promote.files import file_errors
from lessons_loop.promote.runs.pause import refuse_paused
from lessons_loop.promote.session import GateSettings, open_gate
from lessons_loop.promote.state import Located, clean_domain, locate
from lessons_loop.promote.store.candidates import ensure_staging
from lessons_loop.promote.store.server_place import ServerStore


class InitReport(NamedTuple):
    """Which domains were made, and which were there."""

    created: tuple[str, ...]
    present: tuple[str, ...]
    advice: str = ""
    """What is left to a person; empty on one machine."""


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
    place = locate(store, state)
    if isinstance(place, ServerStore):
        refuse_paused(place.state, os.environ)
        place.make_layout()
        place.make_databases()
    created = []
    for name in names:
        settings = GateSettings(store, name, state, embedder, admits_older=True)
        with open_gate(settings, now=now) as session:
            ensure_staging(session.store, name, session.holdings.header.schema_version)
            if session.created:
                created.append(name)
    advice = _make_salt(place)
    return InitReport(tuple(created), tuple(name for name in names if name not in created), advice)


def _make_salt(place: Located) -> str:
    """Make the salt; on a server return how the other hosts get the same one."""
    paths = StorePaths(place.state) if isinstance(place, ServerStore) else place.paths
    with file_errors(paths.salt):
        ensure_salt(paths)
    if not isinstance(place, ServerStore) or os.environ.get("LESSONS_SALT", "").strip():
        return ""
    return (
        "give Open WebUI and every host of the gate the same salt: "
        f'LESSONS_SALT="$(cat {shlex.quote(str(paths.salt))})"'
    )
