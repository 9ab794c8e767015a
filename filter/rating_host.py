"""What the rating plugin asks of Open WebUI: the feedback, the filter's settings, a user's wish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from lessons_loop.filter.place import host_module
from lessons_loop.filter.rating import mapping_of
from lessons_loop.filter.valves import LessonsUserValves, LessonsValves

FILTER_TITLE = "Lessons Loop"
"""The filter's title in its front matter: an admin may have pasted it under any id."""


class FilterFacts(NamedTuple):
    """The filter as it is stored in this Open WebUI."""

    name: str
    valves: LessonsValves


class RatingHost(Protocol):
    """Where feedback comes from."""

    async def feedback(self, name: str) -> Mapping[str, Any] | None:
        """Return a feedback row, None where there is none (any more)."""

    async def filter_facts(self) -> FilterFacts | None:
        """Return the filter whose answers are rated, None where it is not installed."""

    async def contributes(self, function: str, user: str) -> bool:
        """Say whether a user lets lessons be learned from his chats."""


class OpenWebUIHost:
    """The Open WebUI this process runs; satisfies RatingHost."""

    async def feedback(self, name: str) -> Mapping[str, Any] | None:
        """Return a feedback row without the whole chat it carries."""
        row = await host_module("open_webui.models.feedbacks").Feedbacks.get_feedback_by_id(name)
        return None if row is None else dict(row.model_dump(exclude={"snapshot"}))

    async def filter_facts(self) -> FilterFacts | None:
        """Return the filter, of several an active one."""
        functions = host_module("open_webui.models.functions").Functions
        stored = await functions.get_functions_by_type("filter")
        ours = [function for function in stored if titled(function) == FILTER_TITLE]
        if not ours:
            return None
        chosen = min(ours, key=lambda function: (not function.is_active, function.id))
        valves = await functions.get_function_valves_by_id(chosen.id)
        return FilterFacts(chosen.id, LessonsValves.model_validate(valves or {}))

    async def contributes(self, function: str, user: str) -> bool:
        """Read the user's own valves of the filter."""
        functions = host_module("open_webui.models.functions").Functions
        own = await functions.get_user_valves_by_id_and_user_id(function, user)
        chosen = LessonsUserValves.model_validate(own or {})
        return chosen.contribute and chosen.use_lessons


def titled(function: Any) -> object:
    """Return the title in a stored function's front matter."""
    return mapping_of(getattr(function.meta, "manifest", None)).get("title")
