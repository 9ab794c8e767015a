"""What the tests of the gate's commands share: the environment they run in, one-line errors."""

from __future__ import annotations

from pathlib import Path

from support.commands import told
from support.gate import candidate, server_url, stage
from support.judging import SOUND, environment, sightings

SCRIPT = "promote/promote.py"


def surroundings(root: Path, embedding: str) -> dict[str, str]:
    """Return an environment that names the store and its embedder."""
    url = server_url(root)
    state = {"LESSONS_STATE": str(root / "state")} if url else {}
    found = environment(root, LESSONS_EMBEDDING=embedding, **state)
    return found | {"LESSONS_STORE": url or str(root)}


def filled(root: Path, embedding: str) -> dict[str, str]:
    """Stage a sound lesson that two users saw and a bad one; return the environment."""
    stage(root, [*sightings(SOUND, 2), candidate("The pool is 40.", message="m")])
    return surroundings(root, embedding)


def one_line(text: str) -> bool:
    """Say whether an error is told in one line."""
    return len(told(text).strip().splitlines()) == 1 and "Traceback" not in text
