"""Keep the use register small: the oldest answers that no thumb judged leave it.

A register of a million uses has 2 GB, and each snapshot reads all of it. Rated uses always
stay: they are what judges lessons. `hits` is counted when a use is folded and stays too.
Not covered: with `--judge-by-tools`, answers that left count no more; an event that comes
back after its use left is counted in `hits` once more.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from lessons_loop.filter.errors import StoreError
from lessons_loop.filter.store import first_line
from lessons_loop.promote.decay.fold import FOLD_BATCH, FOLDER
from lessons_loop.promote.records import Action, Change
from lessons_loop.promote.session import GateSession

_OLDEST = """
select id from uses where json_extract(row, '$.rated_at') = ''
order by json_extract(row, '$.at') desc, id limit -1 offset ?
"""


def drop_old_uses(session: GateSession, most: int) -> int:
    """Drop unrated uses beyond the newest `most`, 0 keeps all; return how many; raise StoreError.

    A rating that comes later finds no use and waits in staging until it is too old.
    """
    gone = unrated_beyond(session.uses.path, most) if most else []
    for start in range(0, len(gone), FOLD_BATCH):
        page = tuple(gone[start : start + FOLD_BATCH])
        reason = f"{len(page)} answers without a thumb left the register, {most} are kept"
        payload: dict[str, object] = {"dropped": len(page), "kept": most}
        session.apply(Change(Action.FOLD, "", reason, FOLDER, payload, drop_uses=page))
    return len(gone)


def unrated_beyond(register: Path, most: int) -> list[str]:
    """Return the ids of a register's unrated uses but for the newest `most`; raise StoreError."""
    if not register.exists():
        return []
    address = f"file:{quote(str(register))}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True)) as file:
            return [str(id_) for (id_,) in file.execute(_OLDEST, [most])]
    except sqlite3.Error as error:
        raise StoreError(f"{register} cannot be used: {first_line(error)}") from None
