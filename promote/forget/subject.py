"""Whom to forget, and where a store's traces of anybody may lie."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from lessons_loop.filter.errors import LessonsError, StoreError
from lessons_loop.filter.store import StorePaths, ensure_salt
from lessons_loop.promote.forget.forgotten import USER
from lessons_loop.promote.state import Located
from lessons_loop.promote.store.chroma import DATABASE
from lessons_loop.promote.store.rows import chroma_errors
from lessons_loop.promote.store.server_place import ServerStore

_COLLECTION = re.compile(r"([a-z0-9][a-z0-9-]{0,39}?)-lessons(?:-candidates|-events|-archive)?")


class Subject(NamedTuple):
    """One user or one chat."""

    what: str
    """`user` or `chat`."""
    ref: str
    """What the plugin writes in its place: HMAC-SHA256 of the id under the salt."""

    def owns(self, row: dict[str, Any]) -> bool:
        """Say whether a row of plain values belongs to it."""
        return row.get("user_ref" if self.what == USER else "chat_ref") == self.ref


def subject(place: Located, what: str, identity: str) -> Subject:
    """Return whom an id of Open WebUI's means; raise LessonsError, StoreError."""
    name = identity.strip()
    if not name:
        raise LessonsError(f"no {what} given: give the id Open WebUI has for it")
    if "@" in name:
        raise LessonsError("a user is known by the id, not the address: see Admin > Users")
    return Subject(what, hmac.new(_salt(place), name.encode(), hashlib.sha256).hexdigest())


def _salt(place: Located) -> bytes:
    paths = StorePaths(place.state) if isinstance(place, ServerStore) else place.paths
    if not os.environ.get("LESSONS_SALT", "").strip() and not paths.salt.exists():
        raise StoreError(
            f"{paths.salt} is missing: without the plugin's salt nobody's rows can be told apart: "
            "restore it, or set LESSONS_SALT to the plugin's"
        )
    return ensure_salt(paths)


def domains_with_traces(place: Located) -> list[str]:
    """Return every domain that has a collection of any kind; raise StoreError."""
    if isinstance(place, ServerStore):
        names: set[str] = set()
        for database in ("curated", "staging", "gate"):
            with place.told(), place.closing(database) as client, chroma_errors(database):
                names.update(found.name for found in client.list_collections())
    else:
        folders = (place.paths.gate, place.paths.staging)
        names = {name for folder in folders for name in _collections(folder / DATABASE)}
    found = (_COLLECTION.fullmatch(name) for name in names)
    return sorted({match[1] for match in found if match})


def _collections(database: Path) -> list[str]:
    if not database.exists():
        return []
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            return [name for (name,) in connection.execute("select name from collections")]
    except sqlite3.Error as error:
        raise StoreError(f"{database} cannot be read: {error}: run `lessons repair`") from None


def holds(content: bytes, needles: Iterable[str]) -> bool:
    """Say whether any reference stands in a file's bytes."""
    return any(needle.encode() in content for needle in needles)


def redacted(value: Any, subject: Subject) -> Any:
    """Return plain values without the rows that belong to `subject`, counts corrected."""
    if isinstance(value, list):
        kept = [one for one in value if not (isinstance(one, dict) and subject.owns(one))]
        return [redacted(one, subject) for one in kept]
    if not isinstance(value, dict):
        return value
    found = {name: redacted(one, subject) for name, one in value.items()}
    before, after = value.get("candidates"), found.get("candidates")
    if isinstance(before, list) and isinstance(after, list) and len(after) < len(before):
        lost = len(before) - len(after)
        found["sightings"] = max(0, int(value.get("sightings") or 0) - lost)
    for name in ("candidate", "archived"):
        if isinstance(found.get(name), dict) and subject.owns(found[name]):
            found[name] = None
    return found


def still_named(value: Any, needles: Iterable[str]) -> bool:
    """Say whether plain values still name one of the references."""
    return holds(json.dumps(value, ensure_ascii=False).encode(), needles)
