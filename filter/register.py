"""Small SQLite registers beside the spool, shared by all workers of a machine."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.store import first_line

REGISTER_BUSY_SECONDS = 5.0


@contextmanager
def writing_register(path: Path, tables: str, hint: str) -> Iterator[sqlite3.Connection]:
    """Hold a register alone, made where it is missing; a block that raises changes nothing.

    `hint` is added where the file is damaged. Raises StoreError.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        opened = sqlite3.connect(path, timeout=REGISTER_BUSY_SECONDS, isolation_level=None)
        with closing(opened) as found:
            found.execute("begin immediate")
            for table in filter(None, map(str.strip, tables.split(";"))):
                found.execute(table)
            yield found
            found.execute("commit")
    except (sqlite3.Error, OSError) as error:
        damaged = type(error) is sqlite3.DatabaseError  # locked or full is a subclass
        raise StoreError(
            f"{path} cannot be used: {first_line(error)}{f'; {hint}' if damaged else ''}"
        ) from None
