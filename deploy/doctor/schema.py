"""What `lessons doctor` says about releases that have to fit each other: store, command, plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lessons_loop.deploy.doctor.findings import Finding, Level
from lessons_loop.deploy.webui.plugin_file import front_matter, release
from lessons_loop.filter.schema import FIRST_SCHEMA, SCHEMA

NEWER = "has schema"
"""How errors tell a store of a later release."""
UPGRADE = "upgrade lessons-loop here, or the image it runs from"


def plugin_schema(source: str) -> int:
    """Return the schema a stored plugin reads; the first releases did not say."""
    told = front_matter(source).get("schema", "")
    return int(told) if told.isdecimal() else FIRST_SCHEMA


def is_newer(source: str, shipped: str) -> bool:
    """Say whether a stored plugin is of a later release than the one shipped here."""
    there, here = (release(front_matter(one).get("version", "")) for one in (source, shipped))
    return there > here or plugin_schema(source) > SCHEMA


def schema_findings(status: Mapping[str, Any], source: str, url: str) -> list[Finding]:
    """Say which schemas meet; `source`: the stored plugin's, empty where it is not known."""
    stored = (status.get("schema") or {}).get("store")
    if stored is None:
        return []
    told = f"store {stored}, this release {SCHEMA}"
    if not source:
        return [Finding("schema", Level.OK, told)]
    plugin = plugin_schema(source)
    if plugin >= stored:
        return [Finding("schema", Level.OK, f"{told}, plugin {plugin}")]
    text = (
        f"{told}, plugin {plugin}: on a server it keeps the lessons it has until it is "
        "restarted, then recalls none"
    )
    return [Finding("schema", Level.PROBLEM, text, f"lessons install --url {url}")]
