"""Repair a use register: what of it still reads, and what the newest snapshot has besides.

Covered: rows changed by hand, a file that is no database any more, a crash in the middle.
Not covered: uses folded after the newest snapshot whose rows are lost: curated's `hits` keep
them, and thumbs on them judge nothing any more.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from lessons_loop.filter.errors import StoreDamaged
from lessons_loop.promote.clock import stamp
from lessons_loop.promote.decay.uses import Use, UseRegister
from lessons_loop.promote.files import file_errors, sync_folder
from lessons_loop.promote.forget.forgotten import Forgotten
from lessons_loop.promote.snapshot.kept import list_snapshots, read_snapshot
from lessons_loop.promote.store.repair import RepairReport


def repair_registers(state: Path, now: Callable[[], datetime]) -> list[RepairReport]:
    """Rebuild each domain's damaged register; for the holder of the gate's lock. StoreError."""
    domains = sorted(file.stem for file in (state / "uses").glob("[!.]*.sqlite"))
    reports = [_repair(state, domain, now()) for domain in domains]
    return [one for one in reports if one.aside] or [RepairReport("sound", 0, None, "use register")]


def _repair(state: Path, domain: str, moment: datetime) -> RepairReport:
    register = UseRegister(state, domain)
    with suppress(StoreDamaged):
        list(register.rows())
        register.keys()
        return RepairReport("sound", 0, None, "use register")
    gone = Forgotten.load(state)
    rows = {use.id: use for use in _of_snapshot(state, domain)}
    rows |= {use.id: use for use in _readable(register.path)}
    kept = [use for use in rows.values() if not gone.covers_event(use)]
    aside = register.path.with_name(f"{domain}.damaged-{stamp(moment)}")
    _exchange(register.path, aside, kept)
    note = f"use register of {domain}: {len(kept)} uses kept; the old file is {aside}"
    return RepairReport("rebuilt", len(kept), aside, f"use register of {domain}", note)


def _of_snapshot(state: Path, domain: str) -> tuple[Use, ...]:
    for path in reversed(list_snapshots(state, domain)):
        with suppress(StoreDamaged):
            return read_snapshot(path).uses
    return ()


def _readable(path: Path) -> Iterator[Use]:
    with suppress(sqlite3.Error), closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        for (row,) in connection.execute("select row from uses"):
            with suppress(ValidationError):
                yield Use.model_validate_json(row)


def _exchange(path: Path, aside: Path, rows: list[Use]) -> None:
    """Put a new file in the old one's place, which stays under another name."""
    with file_errors(path):
        fresh = UseRegister(path.parent.parent, f".{path.stem}-fresh")
        fresh.path.unlink(missing_ok=True)
        fresh.create()
        fresh.put(rows)
        os.link(path, aside)
        fresh.path.replace(path)
        sync_folder(path.parent)
