"""Which domains a store has, for commands that work on all of them."""

from __future__ import annotations

from pathlib import Path

from lessons_loop.filter.errors import StoreError
from lessons_loop.promote.runs.summary import read_summaries
from lessons_loop.promote.state import existing_store, locate
from lessons_loop.promote.store.server_place import ServerStore


def domains_in(store: str, state: Path | None, named: str = "") -> list[str]:
    """Return the named domains, else all there are; raise StoreError without one."""
    given = list(dict.fromkeys(name.strip() for name in named.split(",") if name.strip()))
    existing_store(store)
    place = locate(store, state)
    if given:
        return given
    known = {summary.domain for summary in read_summaries(place.state)}
    if isinstance(place, ServerStore):
        known |= set() if known else set(place.domains())
    else:
        known |= {file.stem for file in place.paths.published("x").parent.glob("*.lessons")}
    if not known:
        raise StoreError(f"{place.title} has no domain: run `lessons init`")
    return sorted(known)
