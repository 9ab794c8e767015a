"""What `lessons doctor` says about the way from the plugin to its store: guarded or not.

Covered: the policy proxy before this store or before another; Chroma itself; an address that
cannot be asked from here. Not covered: whether the network lets Open WebUI go another way.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from lessons_loop.deploy.doctor.findings import Finding, Level
from lessons_loop.filter.errors import LessonsError, StoreError
from lessons_loop.filter.server import ServerAddress, is_server, parse_server, server_token
from lessons_loop.filter.server_session import BoundedSession
from lessons_loop.filter.store import StorePaths

DOOR_SECONDS = 2.0
ANSWER_BYTES = 2**16
CHECK = "plugin's store"
REFUSED = "the policy proxy refuses"
OTHER = "pass that one as --store, or give the plugin yours: lessons install --store"
GUARD = "put the policy proxy between them (deploy/README.md): lessons install --store its address"


class Door(NamedTuple):
    """What the plugin's store address leads to, seen from here."""

    guarded: bool | None
    """Whether the policy proxy stands there; None: it could not be asked."""
    same: bool | None
    """Whether the same curated lessons are behind it."""


def look_at_door(plugin: str, store: str) -> Door | None:
    """Ask what the plugin's address is; None unless both are servers. Raises nothing of ours."""
    if not (is_server(plugin) and is_server(store)):
        return None
    try:
        there, here = parse_server(plugin), parse_server(store)
        with closing(BoundedSession(server_token(), DOOR_SECONDS, ANSWER_BYTES)) as session:
            guarded = is_guarded(session, there)
            return Door(guarded, identity(session, there) == identity(session, here))
    except Exception:  # httpx's many, and whatever else answers there
        return Door(None, None)


def is_guarded(session: BoundedSession, address: ServerAddress) -> bool:
    """Say whether the gate's own database is refused by the proxy; raises what asking raises."""
    try:
        _database(session, address, "gate")
    except StoreError as error:
        if REFUSED not in str(error):
            raise
        return True
    return False


def identity(session: BoundedSession, address: ServerAddress) -> str:
    """Return the id of database `curated`: no two servers and no two tenants have the same."""
    found = _database(session, address, "curated")
    if not found:
        raise LessonsError("no database curated there")
    return found


def _database(session: BoundedSession, address: ServerAddress, name: str) -> str:
    tenant = f"{address.base}/api/v2/tenants/{address.tenant}"
    answer: Any = session.request("GET", f"{tenant}/databases/{name}")
    return str(dict(answer.json()).get("id", ""))


def store_findings(plugin: str, store: str, door: Door | None) -> list[Finding]:
    """Say whether the plugin uses the store looked at, and whether a proxy guards it."""
    if not (plugin.strip() and store):
        return []
    shown = shown_store(plugin)
    same = same_store(plugin, store)
    if door and door.guarded and door.same:
        return [Finding(CHECK, Level.OK, f"reached through the policy proxy at {shown}")]
    if same:
        open_door = door is not None and door.guarded is False
        text = "the plugin talks to Chroma itself: only its own code keeps it from curated"
        return [Finding(CHECK, Level.WARNING, text, GUARD)] if open_door else []
    if door and door.guarded is None:
        text = f"{shown} cannot be asked from here: right if that is the proxy before this store"
        return [Finding(CHECK, Level.NOT_CHECKED, text)]
    text = f"the plugin's valve names another one: {shown}"
    return [Finding(CHECK, Level.WARNING, text, OTHER)]


def same_store(one: str, other: str) -> bool:
    """Say whether two store settings mean the same place."""
    if is_server(one) or is_server(other):
        return shown_store(one) == shown_store(other)
    first, second = (StorePaths(Path(place.strip()).expanduser()) for place in (one, other))
    return first.root.absolute() == second.root.absolute()


def shown_store(setting: str) -> str:
    """Return a store setting as it may be printed: an address never with its password."""
    try:
        return parse_server(setting).url if is_server(setting) else setting.strip()
    except StoreError:
        return "an address that cannot be used"
