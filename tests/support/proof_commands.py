"""`lessons` commands that ask a served model, and what they leave in a state directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.commands import Done, run_here
from support.gate import candidate, flags, located, stage
from support.llm_server import LlmServer


def propose(root: Path, *lessons: Any) -> list[str]:
    """Stage lessons as two users' chats showed them; return their keys."""
    for one in lessons:
        fields = {"trigger": one.lesson.trigger, "tags": ()}
        text = one.lesson.text
        rows = [
            candidate(text, message=f"{text}{n}", user=f"u-{n}", chat=f"{text}{n}", **fields)
            for n in range(2)
        ]
        stage(root, rows)
    return [one.key for one in lessons]


def call(
    monkeypatch: pytest.MonkeyPatch, server: LlmServer | None, root: Path, *words: str
) -> Done:
    """Run a command with the agent in the environment."""
    if server is not None:
        monkeypatch.setenv("LESSONS_EVAL_URL", server.url)
        monkeypatch.setenv("LESSONS_EVAL_MODEL", "some-model")
    return run_here(*words, *flags(root))


def everything(root: Path) -> str:
    """Return all a state directory holds as text."""
    files = (path for path in located(root).state.rglob("*") if path.is_file())
    return "".join(path.read_bytes().decode("utf-8", "replace") for path in files)
