"""Which sightings the plugin wrote itself: those with its seal.

Rows without one are as a rule no attack: an older plugin's, a test's. So nothing is asked for
until the first sealed candidate of a domain was seen; from then on a sighting without a
seal is nobody's for unattended promotion, and a person decides.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from lessons_loop.filter.models import Candidate
from lessons_loop.filter.seal import is_sealed
from lessons_loop.promote.files import file_errors, private_folder, write_atomic
from lessons_loop.promote.session import GateSession
from lessons_loop.promote.store.places import FolderStore, LessonStore

FOLDER = "sealed"


class Seals(NamedTuple):
    """What sightings are checked by."""

    salt: bytes = b""
    """Empty: nothing is checked."""

    def lacking(self, candidates: Iterable[Candidate]) -> frozenset[str]:
        """Return the ids of sightings that somebody else wrote, or changed."""
        if not self.salt:
            return frozenset()
        return frozenset(seen.id for seen in candidates if not is_sealed(self.salt, seen))


def read_seals(session: GateSession, candidates: Collection[Candidate] = ()) -> Seals:
    """Return what to check by; the first sealed candidate of a domain is noted for good.

    Raises StoreError.
    """
    salt = known_salt(session.store)
    noted = session.state / FOLDER / session.domain
    if not salt:
        return Seals()
    if noted.exists():
        return Seals(salt)
    if not any(is_sealed(salt, seen) for seen in candidates):
        return Seals()
    _note(noted)
    return Seals(salt)


def known_salt(store: LessonStore) -> bytes:
    """Return the salt plugin and gate share; empty where there is none. Raises StoreError."""
    if given := os.environ.get("LESSONS_SALT", "").strip():
        return given.encode()
    path = store.paths.salt if isinstance(store, FolderStore) else store.state / "salt"
    with file_errors(path):
        return path.read_bytes().strip() if path.is_file() else b""


def _note(path: Path) -> None:
    private_folder(path.parent)
    write_atomic(path, b"")
