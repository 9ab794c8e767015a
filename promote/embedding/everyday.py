"""Everyday messages and chats that no lesson should answer: sixty messages set the floor."""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict


class EverydayTurn(BaseModel):
    """One question and what was answered."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ask: str
    reply: str


class EverydayChat(BaseModel):
    """One chat of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    after_work: bool
    """A lesson's own question stands before the first turn, its text is the answer."""
    turns: tuple[EverydayTurn, ...]


@functools.cache
def everyday_messages(name: str = "calibration") -> tuple[str, ...]:
    """Return the messages of `eval/questions/everyday/<name>.yaml`: data, no code of eval."""
    return tuple(map(str, _packaged(name)))


@functools.cache
def everyday_chats(name: str = "calibration") -> tuple[EverydayChat, ...]:
    """Return the chats of `chats_<name>.yaml`; those of `calibration` guide recall's constants."""
    return tuple(map(EverydayChat.model_validate, _packaged(f"chats_{name}")))


def _packaged(name: str) -> list[Any]:
    file = files("lessons_loop.eval") / "questions" / "everyday" / f"{name}.yaml"
    found: list[Any] = yaml.safe_load(file.read_text("utf-8"))
    return found
