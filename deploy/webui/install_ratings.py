"""Put the rating plugin beside the filter: create or update, switch on, read back."""

from __future__ import annotations

from dataclasses import dataclass

from lessons_loop.deploy.webui.client import OpenWebUI, OpenWebUIError
from lessons_loop.deploy.webui.install import function_id, require_admin, store
from lessons_loop.deploy.webui.plugin_file import RATING_ID, RATING_TITLE, front_matter

RATING_NAME = "Lesson ratings"


@dataclass(frozen=True)
class RatingsInstalled:
    """What is true of the rating plugin after an installation."""

    function: str
    """The id it is stored under."""
    version: str
    source_digest: str
    outcome: str
    """created | updated | unchanged"""
    switched_on: bool
    """Whether it was there, but off."""

    @property
    def changed(self) -> bool:
        """Whether anything was written."""
        return self.outcome != "unchanged" or self.switched_on


def install_ratings(client: OpenWebUI, source: str) -> RatingsInstalled:
    """Bring the rating plugin in place; it needs no valves. Raises OpenWebUIError."""
    functions = require_admin(client)
    name = function_id(functions, RATING_ID, RATING_TITLE)
    there = any(function.get("id") == name for function in functions)
    written = store(client, name, source, RATING_NAME)
    switched = client.switch_on(name, ("is_active",))
    state = client.function(name) or {}
    if state.get("content") != source:
        raise OpenWebUIError("Open WebUI stored another text than it was sent: run it again")
    if not state.get("is_active"):
        raise OpenWebUIError(
            "Open WebUI switched the rating plugin off again: its own log has the reason"
        )
    fields = front_matter(source)
    return RatingsInstalled(
        function=name,
        version=fields.get("version", ""),
        source_digest=fields.get("source_digest", ""),
        outcome=("updated" if there else "created") if written else "unchanged",
        switched_on=bool(switched) and there,
    )
