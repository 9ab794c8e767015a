"""The shipped plugin file, and what the front matter of any version of it says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lessons_loop.filter.errors import LessonsError

PLUGIN_FILE = Path(__file__).resolve().parent / "openwebui" / "lessons_filter.py"
PLUGIN_ID = "lessons_filter"
PLUGIN_TITLE = "Lessons Loop"
_LINE = re.compile(r"^\s*([a-z_]+):\s*(.*?)\s*$", re.MULTILINE)


def plugin_source() -> str:
    """Return the text an administrator would paste; raise LessonsError."""
    try:
        return PLUGIN_FILE.read_text("utf-8")
    except OSError as error:
        raise LessonsError(
            f"{PLUGIN_FILE} cannot be read ({error.strerror}): install lessons-loop again"
        ) from None


def front_matter(source: str) -> dict[str, str]:
    """Return the fields of a plugin's first docstring, as Open WebUI reads them."""
    if not source.startswith('"""'):
        return {}
    return dict(_LINE.findall(source[3:].partition('"""')[0]))


def is_ours(function: Mapping[str, Any]) -> bool:
    """Say whether a stored function is a version of this plugin, under whatever id."""
    meta = function.get("meta")
    manifest = (meta.get("manifest") if isinstance(meta, Mapping) else None) or {}
    return isinstance(manifest, Mapping) and manifest.get("title") == PLUGIN_TITLE


def release(version: str) -> tuple[int, ...]:
    """Return a version's leading numbers, for comparing: `0.12.4` gives (0, 12, 4)."""
    found = re.match(r"\d+(?:\.\d+)*", version.strip().removeprefix("v"))
    return tuple(int(part) for part in found.group().split(".")) if found else ()
