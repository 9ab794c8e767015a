"""The schema of what is stored: which release may read it, which may write it. One number a store.

    schema 1   releases whose curated rows have no `proof` and whose candidates have no `seal`
    schema 2   both may be there; left out where empty

A number rises with every field the gate keeps in curated or archive: a gate that does not
know it would lose it with the next rewrite. So a gate refuses what is newer than itself.
Recall only reads: it leaves out what it does not know, as long as the store's `min_reader` (absent:
the schema itself) is not above its own number. What changes the meaning of a field there is, or
its values, raises that too. Staging takes rows of any release; the gate reads older ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lessons_loop.filter.errors import StoreNewer

SCHEMA = 2
FIRST_SCHEMA = 1
"""Of stores that do not say: they are older than the number."""
HEADER_FIELD = "schema_version"
MARK_FIELD = "schema"
"""Of every other collection: a gate of schema 1 takes what has the first for curated."""
PUBLISHED_READER = 1
"""The published file leaves out what recall does not need: plugins of schema 1 read it."""


def schema_of(found: Mapping[str, Any] | None) -> int:
    """Return the schema that metadata name; FIRST_SCHEMA where they name none."""
    named = found or {}
    return whole_number(named.get(HEADER_FIELD, named.get(MARK_FIELD)), FIRST_SCHEMA)


def reader_of(found: Mapping[str, Any] | None) -> int:
    """Return the schema a reader has to know at least."""
    return whole_number((found or {}).get("min_reader"), schema_of(found))


def whole_number(value: object, otherwise: int) -> int:
    """Return a number as it stands in metadata, which anybody may have written."""
    return value if type(value) is int else otherwise


def refuse_unreadable(found: Mapping[str, Any] | None, what: str) -> None:
    """Raise StoreNewer where recall of this release cannot read it."""
    if reader_of(found) > SCHEMA:
        raise StoreNewer(
            f"{what} has schema {schema_of(found)}, this plugin knows {SCHEMA}: "
            "install the plugin of the release that wrote it"
        )


def refuse_newer(found: Mapping[str, Any] | None, what: str) -> None:
    """Raise StoreNewer where a gate of this release would lose something."""
    if schema_of(found) > SCHEMA:
        raise StoreNewer(
            f"{what} has schema {schema_of(found)}, this release knows {SCHEMA}: "
            "upgrade lessons-loop here, or the image it runs from"
        )
