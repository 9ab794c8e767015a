"""A run that promotes one lesson and retires another, with trouble between its steps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lessons_loop.promote.session import open_gate
from support.chroma_server import ChromaServer, fresh_url
from support.gate import (
    candidate,
    gate,
    promotion,
    put_on_server,
    raw_client,
    retirement,
    settings,
    shown,
    stage,
)

FOUND = candidate()
OLD = candidate("Bound every read.", message="m0")


def put_waiting(root: Path, server: ChromaServer) -> Path:
    """Make a store on a tenant of its own, with the old lesson curated and the new one staged."""
    put_on_server(root, fresh_url(server))
    with gate(root) as session:
        session.apply(promotion(session, OLD))
    stage(root, [FOUND])
    return root


def promote(
    root: Path, trouble: Callable[[str], object] = lambda _: None, seconds: float = 10.0
) -> None:
    """Promote the candidate and retire the old lesson, with trouble between the steps."""
    with open_gate(settings(root, call_seconds=seconds), checkpoint=trouble) as session:
        if FOUND.lesson.key not in session.curated:
            session.apply(promotion(session, FOUND))
        if OLD.lesson.key in session.curated:
            session.apply(retirement(session, OLD.lesson.key))


def assert_whole(root: Path) -> None:
    """Everything was carried out once, nothing is left over."""
    with gate(root) as session:
        assert list(session.curated) == [FOUND.lesson.key]
        assert list(session.archive) == [f"{OLD.lesson.key}-stale"]
        actions = [entry.action.value for entry in session.ledger.entries()]
        assert actions == ["init", "promote", "promote", "retire"]
        assert session.candidates() == [] and session.ledger.verify() == []
        session.nearest_vectors()
    assert shown(root).keys == (FOUND.lesson.key,)
    with raw_client(root, "gate") as client:
        assert [one.name for one in client.list_collections()] == ["sql-lessons-archive"]


def at(step: str, trouble: Callable[[], object]) -> Callable[[str], None]:
    met: list[str] = []

    def checkpoint(name: str) -> None:
        met.append(name)
        if name == step and met.count(name) == 1:
            trouble()

    return checkpoint


def one_line(error: Exception, root: Path) -> bool:
    text = str(error)
    return "\n" not in text and (root / "server.url").read_text() in text
