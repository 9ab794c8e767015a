"""Test tools for the gate: a deterministic embedder, builders, staging as the plugin fills it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from lessons_loop.filter.embed import Purpose, Vectors, unit_rows
from lessons_loop.filter.events import Usage
from lessons_loop.filter.models import (
    Candidate,
    Curated,
    Evidence,
    EvidenceKind,
    Kind,
    Lesson,
    Status,
)
from lessons_loop.filter.spool import Spool
from lessons_loop.filter.store import StorePaths
from lessons_loop.promote.records import Action, Actor, Archived, Change
from lessons_loop.promote.session import GateSession, GateSettings, open_gate

WHEN = "2026-11-01T08:00:00Z"
HUMAN = Actor(kind="human", name="alex")
_WORD = re.compile(r"\w+")


class HashEmbedder:
    """Bag of words: texts that share words are near; the same everywhere, instantly."""

    def __init__(
        self,
        dimension: int = 64,
        name: str = "",
        prefixes: tuple[str, str] = ("", ""),
        salt: str = "",
    ) -> None:
        self.dimension = dimension
        self.name = name or f"hash-{dimension}"
        self.prefixes = prefixes
        self.salt = salt
        self.asked: list[tuple[str, Purpose]] = []
        """Every text as it was embedded, prefix included."""

    def embed(self, texts: Sequence[str], purpose: Purpose) -> Vectors:
        prefix = self.prefixes[0 if purpose is Purpose.QUERY else 1]
        self.asked += [(prefix + text, purpose) for text in texts]
        return unit_rows([self._row(prefix + text) for text in texts], len(texts))

    def _row(self, text: str) -> list[float]:
        row = [0.001] * self.dimension
        for word in _WORD.findall(text.casefold()):
            code = int.from_bytes(hashlib.sha256((self.salt + word).encode()).digest()[:8], "big")
            row[code % self.dimension] += 1.0 if code & (1 << 40) else -1.0
        return row


def lesson(text: str = "Look serials up in equipment_machine.", **fields: Any) -> Lesson:
    """Return a valid lesson; `fields` replace the defaults."""
    defaults: dict[str, Any] = {
        "domain": "sql",
        "kind": Kind.RESOLUTION_PATTERN,
        "trigger": "questions about one machine",
        "tags": ("serial",),
    }
    return Lesson(text=text, **(defaults | fields))


def candidate(
    text: str = "Look serials up in equipment_machine.",
    *,
    message: str = "message-1",
    user: str = "user-1",
    chat: str = "chat-1",
    at: str = WHEN,
    evidence: Evidence | None = None,
    **fields: Any,
) -> Candidate:
    """Return a valid candidate; `fields` go to its lesson."""
    proof = evidence or Evidence(
        kind=EvidenceKind.TOOL_SUCCESS,
        quote="3 rows from equipment_machine",
        excerpt="[2] call run_sql: select from equipment_machine\n"
        "[3] result run_sql: 3 rows from equipment_machine",
        tools=("run_sql",),
    )
    return Candidate(
        lesson=lesson(text, **fields),
        evidence=proof,
        message_ref=message,
        chat_ref=chat,
        user_ref=user,
        model="practice-model",
        prompt="distill-1",
        at=at,
    )


def curated(found: Lesson, **fields: Any) -> Curated:
    """Return a curated record of a lesson."""
    return Curated(lesson=found.model_copy(update={"status": Status.CURATED}), since=WHEN, **fields)


def archived(found: Lesson, status: Status = Status.REJECTED, **fields: Any) -> Archived:
    """Return an archived record of a lesson."""
    gone = found.model_copy(update={"status": status})
    return Archived(**({"lesson": gone, "reason": "test", "at": WHEN} | fields))


def stage(paths: StorePaths, candidates: Sequence[Candidate]) -> None:
    """Put candidates into staging the way the plugin does."""
    spool = Spool(paths)
    spool.append_candidates(candidates)
    spool.drain()


def stage_usage(paths: StorePaths, domain: str, usages: Sequence[Usage]) -> None:
    """Put usage events into staging the way the plugin does."""
    spool = Spool(paths)
    for usage in usages:
        spool.append_usage(domain, usage)
    spool.drain()


def settings(root: Path, embedder: Any = None, **fields: Any) -> GateSettings:
    """Return settings for a store folder and domain `sql`."""
    chosen = HashEmbedder() if embedder is None else embedder
    return GateSettings(**({"store": str(root), "domain": "sql", "embedder": chosen} | fields))


def gate(root: Path, embedder: Any = None, **fields: Any) -> AbstractContextManager[GateSession]:
    """Open a gate on a store folder with the test embedder."""
    return open_gate(settings(root, embedder, **fields))


def promotion(session: GateSession, found: Candidate) -> Change:
    """Return the change that promotes one candidate."""
    row = curated(found.lesson, occurrences=1, distinct_users=1)
    return Change(
        action=Action.PROMOTE,
        key=row.key,
        reason="seen to work",
        actor=HUMAN,
        payload={"candidate": found.model_dump(mode="json")},
        put=(row,),
        vectors=session.embed([row.lesson.embedded_text]),
        staged=(found.id,),
    )


def retirement(session: GateSession, key: str, status: Status = Status.STALE) -> Change:
    """Return the change that takes one lesson out of use."""
    row = session.curated[key]
    return Change(
        action=Action.RETIRE,
        key=key,
        reason="no longer true",
        actor=HUMAN,
        payload={"curated": row.model_dump(mode="json")},
        remove=(key,),
        archive=(archived(row.lesson, status, curated=row),),
    )
