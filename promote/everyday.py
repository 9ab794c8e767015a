"""Everyday chat messages that no lesson should answer: sixty of them set the relevance floor."""

from __future__ import annotations

import functools
from importlib.resources import files

import yaml


@functools.cache
def everyday_messages(name: str = "calibration") -> tuple[str, ...]:
    """Return the messages of `eval/questions/everyday/<name>.yaml`: data, no code of eval."""
    file = files("lessons_loop.eval") / "questions" / "everyday" / f"{name}.yaml"
    return tuple(map(str, yaml.safe_load(file.read_text("utf-8"))))
