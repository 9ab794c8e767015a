"""A store on its way from one schema to another and back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from lessons_loop.filter.models import Candidate, Status
from lessons_loop.filter.schema import SCHEMA
from lessons_loop.promote.ledger.verify import verify_state
from lessons_loop.promote.records import Action, Change
from lessons_loop.promote.session import GateSession
from lessons_loop.promote.store.migrate import Moved, Wish, migrate_store
from support.gate import (
    HUMAN,
    archived,
    candidate,
    flags,
    gate,
    located,
    raw_client,
    server_url,
)
from support.older import measured


def migrate(root: Path, to: int = SCHEMA, **wish: Any) -> list[Moved]:
    place = flags(root)
    state = Path(place[3]) if server_url(root) else None
    return migrate_store(Wish(place[1], state, to, **wish))


def dying_migration(store: str, to: str, step: str) -> None:
    """Migrate a folder; the process leaves with code 9 at that step, as after kill -9."""

    def checkpoint(name: str) -> None:
        if name == step:
            os._exit(9)

    migrate_store(Wish(store, None, int(to)), checkpoint=checkpoint)


def marks(root: Path) -> dict[str, Any]:
    """Return the schema every part of a store names."""
    found: dict[str, Any] = {}
    for database in ("curated", "gate", "staging"):
        with raw_client(root, database) as client:
            for one in client.list_collections():
                mark = one.metadata or {}
                found[one.name] = mark.get("schema_version", mark.get("schema"))
    state = located(root).state
    found["state"] = json.loads((state / "state.json").read_text()).get("schema")
    with gate(root, admits_older=True) as session, session.uses._reading() as file:
        assert file is not None
        found["uses"] = file.execute("pragma user_version").fetchone()[0]
    return {name: mark for name, mark in found.items() if not name.endswith("-lock")}


def sound(root: Path) -> bool:
    place = flags(root)
    found = verify_state(place[1], located(root).state)
    return found.sound and not found.notes


def hold_sealed(session: GateSession) -> Candidate:
    """Hold a candidate that carries the plugin's seal."""
    seen = candidate("Read plant_code first.", message="m50").model_copy(update={"seal": "ab12"})
    row = archived(seen.lesson, Status.HELD, candidate=seen, sightings=(seen,))
    session.apply(Change(Action.HOLD, seen.lesson.key, "alone", HUMAN, {"x": 1}, archive=(row,)))
    return seen


def proven_and_sealed(root: Path) -> tuple[str, Candidate]:
    """Put a proof and a seal into a store of this release."""
    with gate(root) as session:
        key = next(iter(session.curated))
        session.apply(measured(session, key))
        return key, hold_sealed(session)
