"""Pause: an administrator stops the gate, with or without a store that can be reached.

`<state>/paused` says who, when and why; whatever else stands there, an empty file too,
pauses as well. LESSONS_PAUSE does it without a file. Runs over all candidates are
skipped then; nothing new may come into curated, while what takes lessons out goes on.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from lessons_loop.filter.text import scrub, shorten
from lessons_loop.promote.clock import iso
from lessons_loop.promote.errors import Paused
from lessons_loop.promote.files import file_errors, private_folder, sync_folder
from lessons_loop.promote.masking import mask_through

VARIABLE = "LESSONS_PAUSE"
NAME = "paused"
REASON_LIMIT = 300
NOTE_LIMIT = 10_000
"""Bytes of a flag file that are read."""
_NO = ("", "0", "false", "no", "off")


class Pause(NamedTuple):
    """A pause in force."""

    source: str
    """LESSONS_PAUSE, or the flag file's path."""
    by: str = ""
    at: str = ""
    reason: str = ""

    @property
    def told(self) -> str:
        """Return it as one line, with how it ends."""
        if self.source == VARIABLE:
            return f"the gate is paused by {VARIABLE}: unset it to go on"
        who = f" by {self.by}" if self.by else f" by {self.source}"
        since = f" since {self.at}" if self.at else ""
        why = f" ({self.reason})" if self.reason else ""
        return f"the gate is paused{who}{since}{why}: `lessons resume` ends it"

    @property
    def why(self) -> str:
        """Return the reason, or what stands for one; never empty."""
        return self.reason or (VARIABLE if self.source == VARIABLE else "no reason given")


def read_pause(state: Path, environ: Mapping[str, str]) -> Pause | None:
    """Return the pause in force, the variable's first; what cannot be read pauses too."""
    if environ.get(VARIABLE, "").strip().lower() not in _NO:
        return Pause(VARIABLE)
    return flag_of(state)


def flag_of(state: Path) -> Pause | None:
    """Return what the flag file says, None without one."""
    path = state / NAME
    try:
        if not os.path.lexists(path):
            return None
        with path.open("rb") as file:
            text = file.read(NOTE_LIMIT).decode(errors="replace")
    except (OSError, ValueError):
        return Pause(str(path))
    try:
        note = json.loads(text)
        found = [_clean(note.get(name)) for name in ("by", "at", "reason")]
    except (ValueError, AttributeError, RecursionError):
        return Pause(str(path), reason=_clean(text.strip().partition("\n")[0]))
    return Pause(str(path), *found)


def refuse_paused(state: Path, environ: Mapping[str, str]) -> None:
    """Raise Paused when an administrator stopped the gate."""
    if found := read_pause(state, environ):
        raise Paused(found.told)


def set_pause(state: Path, by: str, reason: str, now: datetime) -> Pause:
    """Pause and return what is in force; raise StoreError.

    A pause that is in force keeps its note unless a reason is given. On a full disk the
    note may be lost, the pause is not.
    """
    standing = flag_of(state)
    if standing is not None and not reason.strip():
        return standing
    private_folder(state)
    path = state / NAME
    note = {"by": _clean(by), "at": iso(now), "reason": _clean(reason)}
    with file_errors(f"{path} (LESSONS_PAUSE=1 pauses without a file)"):
        try:
            _replace(path, json.dumps(note).encode())
        except OSError:
            if not os.path.lexists(path):
                path.touch(0o600)
        sync_folder(state)
    return Pause(str(path), note["by"], note["at"], note["reason"])


def lift_pause(state: Path) -> Pause | None:
    """Remove the flag and return what it said, None when there was none; raise StoreError."""
    found, path = flag_of(state), state / NAME
    if found is None:
        return None
    with file_errors(path):
        path.unlink(missing_ok=True)
        sync_folder(state)
    return found


def _replace(path: Path, content: bytes) -> None:
    handle, draft = tempfile.mkstemp(prefix=".paused.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def _clean(value: object) -> str:
    text = value if isinstance(value, str) else ""
    line = "".join(sign if sign.isprintable() else " " for sign in scrub(text))
    return shorten(mask_through(" ".join(line.split())), REASON_LIMIT)
