"""Say which files beside the ledger cannot be read: journal, tombstones, use registers."""

from __future__ import annotations

from pathlib import Path

from lessons_loop.filter.errors import LessonsError
from lessons_loop.promote.decay.uses import UseRegister
from lessons_loop.promote.forget.forgotten import unreadable_tombstones
from lessons_loop.promote.ledger.check import Problem
from lessons_loop.promote.ledger.journal import pending_domain


def file_problems(state: Path) -> list[Problem]:
    """Return what is wrong with them, without a ledger line; raise StoreError."""
    told = [
        f"{state / 'forgotten.jsonl'}: line {n} is no tombstone: restore it from a backup"
        for n in unreadable_tombstones(state)
    ]
    journal = state / "journal.json"
    if journal.exists() and not pending_domain(state):
        told.append(f"{journal} cannot be read: restore it from a backup")
    for file in sorted((state / "uses").glob("[!.]*.sqlite")):
        try:
            for _ in UseRegister(state, file.stem).rows():
                pass
        except LessonsError as error:
            told.append(str(error))
    return [Problem(0, text) for text in told]
