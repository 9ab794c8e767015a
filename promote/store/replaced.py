"""Notice a store that is no longer the one the ledger tells of.

Covered: a server or folder replaced by an empty one, a deleted database or collection.
Not covered: one set back to an older state, which the ledger's own check finds.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from lessons_loop.filter.errors import StoreMissing
from lessons_loop.filter.store import collection_names
from lessons_loop.promote.ledger.chain import Ledger


def refuse_replaced(state: Path, store: str, missing: str) -> None:
    """Raise StoreMissing where the ledger has lines: a store without `missing` lost it."""
    if entries := Ledger(state).entries():
        domains = ", ".join(sorted({entry.domain for entry in entries}))
        raise StoreMissing(
            f"{store}: {missing} is missing, but the ledger in {state} has {len(entries)} lines "
            f"({domains}): restore the store from a backup, or begin anew with another --state-dir"
        )


def refuse_lost_domains(ledger: Ledger, store: str, present: Collection[str]) -> None:
    """Raise StoreMissing where a domain of the ledger has no curated collection."""
    known = {entry.domain for entry in ledger.entries()}
    if lost := sorted(known - set(present)):
        refuse_replaced(ledger.path.parent, store, collection_names(lost[0])["curated"])
