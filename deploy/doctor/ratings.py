"""What `lessons doctor` says about the rating plugin: there, on, this release's, and of use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lessons_loop.deploy.doctor.findings import Finding, Level
from lessons_loop.deploy.webui.client import OpenWebUI
from lessons_loop.deploy.webui.plugin_file import (
    RATING_ID,
    RATING_TITLE,
    front_matter,
    is_ours,
    plugin_source,
)

CHECK = "ratings"


@dataclass(frozen=True)
class RatingFacts:
    """What an Open WebUI has of the rating plugin."""

    plugins: tuple[Mapping[str, Any], ...] = ()
    source: str = field(default="", repr=False)
    enabled: bool = True
    """Its only valve."""
    offered: bool = True
    """Whether the page shows users the thumbs."""


def look_at_ratings(client: OpenWebUI, functions: Sequence[Mapping[str, Any]]) -> RatingFacts:
    """Ask about the rating plugin; raise OpenWebUIError."""
    ours = tuple(function for function in functions if is_ours(function, RATING_TITLE))
    name = str(ours[0]["id"]) if len(ours) == 1 else ""
    stored = client.function(name) if name else None
    valves = client.valves("functions", name) if stored else {}
    features = dict(client.ask("GET", "/api/config")).get("features") or {}
    return RatingFacts(
        plugins=ours,
        source=str((stored or {}).get("content", "")),
        enabled=valves.get("enabled") is not False,
        offered=features.get("enable_message_rating") is not False,
    )


def rating_findings(facts: RatingFacts, url: str) -> list[Finding]:
    """Say whether thumbs are noted; without them no lesson is known to help."""
    remedy = f"lessons install --url {url}"
    if not facts.plugins:
        text = "not installed: thumbs are not noted"
        return [Finding(CHECK, Level.WARNING, text, remedy)]
    if len(facts.plugins) > 1:
        names = ", ".join(sorted(str(one.get("id")) for one in facts.plugins))
        text = f"there {len(facts.plugins)} times ({names}): one will do"
        return [Finding(CHECK, Level.WARNING, text, "delete all but one in Admin, Functions")]
    if not facts.plugins[0].get("is_active"):
        text = "switched off (Open WebUI does so, too, when it cannot load it)"
        return [Finding(CHECK, Level.WARNING, text, remedy)]
    if facts.source != plugin_source(RATING_ID):
        return [Finding(CHECK, Level.PROBLEM, other_source(facts.source), remedy)]
    if not facts.enabled:
        text = "switched off by its valve enabled"
        return [Finding(CHECK, Level.WARNING, text, "set it in Admin, Functions")]
    if not facts.offered:
        text = "Open WebUI shows no thumbs: message rating is switched off there"
        return [Finding(CHECK, Level.WARNING, text, "switch it on in Admin Settings, General")]
    return [Finding(CHECK, Level.OK, f"{facts.plugins[0].get('id')} notes thumbs")]


def other_source(source: str) -> str:
    """Say how a stored plugin differs from this release's."""
    stored, shipped = front_matter(source), front_matter(plugin_source(RATING_ID))
    if stored.get("source_digest") == shipped.get("source_digest"):
        return f"{stored.get('version', '?')} there, changed by hand"
    return f"{stored.get('version', '?')} there, of another source than this release's"
