"""The shipped plugin files, and what the front matter of any version of them says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lessons_loop.filter.errors import LessonsError

FOLDER = Path(__file__).resolve().parent.parent / "openwebui"
PLUGIN_ID = "lessons_filter"
PLUGIN_TITLE = "Lessons Loop"
RATING_ID = "lessons_rating"
RATING_TITLE = "Lessons Loop Ratings"
_LINE = re.compile(r"^\s*([a-z_]+):\s*(.*?)\s*$", re.MULTILINE)


def plugin_source(name: str = PLUGIN_ID) -> str:
    """Return the text an administrator would paste; raise LessonsError."""
    file = FOLDER / f"{name}.py"
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise LessonsError(
            f"{file} cannot be read ({error.strerror}): install lessons-loop again"
        ) from None


def front_matter(source: str) -> dict[str, str]:
    """Return the fields of a plugin's first docstring, as Open WebUI reads them."""
    if not source.startswith('"""'):
        return {}
    return dict(_LINE.findall(source[3:].partition('"""')[0]))


def is_ours(function: Mapping[str, Any], title: str = PLUGIN_TITLE) -> bool:
    """Say whether a stored function is a version of a plugin of ours, under whatever id."""
    meta = function.get("meta")
    manifest = (meta.get("manifest") if isinstance(meta, Mapping) else None) or {}
    return isinstance(manifest, Mapping) and manifest.get("title") == title


def release(version: str) -> tuple[int, ...]:
    """Return a version's leading numbers, for comparing: `0.12.4` gives (0, 12, 4)."""
    found = re.match(r"\d+(?:\.\d+)*", version.strip().removeprefix("v"))
    return tuple(int(part) for part in found.group().split(".")) if found else ()
