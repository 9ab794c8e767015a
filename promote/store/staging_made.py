"""Make a staging collection that takes rows of ours, for good."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lessons_loop.filter.staging_made import staging_collection
from lessons_loop.filter.store import STAGING_VECTOR
from lessons_loop.promote.store.rows import chroma_errors

FIRST = "first"
_NAME = re.compile(r".+-lessons-(?:candidates|events)")


def is_staging(name: str) -> bool:
    """Say whether a collection of this name holds what waits."""
    return _NAME.fullmatch(name) is not None


def make_staging(client: Any, name: str, metadata: Mapping[str, Any] | None) -> Any:
    """Return a missing staging collection, made now, its index as small as it goes.

    The first row settles its dimension for good: by a forger's, no row of ours would go in.
    """
    with chroma_errors(name):
        made = staging_collection(client, name, metadata)
        first = {"documents": [FIRST], "metadatas": [{"type": FIRST}]}
        made.upsert(ids=[FIRST], embeddings=[STAGING_VECTOR], **first)
        made.delete(ids=[FIRST])
        return made
