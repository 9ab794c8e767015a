"""Exchanges as they are read, and what is said against a name in them."""

from __future__ import annotations

from typing import Any

from lessons_loop.filter.grounds import name_fault
from lessons_loop.filter.reading import Reading, read_turns
from lessons_loop.filter.terms import names_in
from support.exchanges import assistant, tool, turns, user


def reading(*messages: dict[str, Any]) -> Reading:
    return read_turns(turns(*messages), ())


def fault(word: str, found: Reading, symptoms: bool = False) -> str | None:
    (name,) = names_in(f"use {word} here")
    return name_fault(name, found, symptoms)


TALK = reading(
    user("why is pool_a slow on 16.2.1?"),
    *tool("sql", "ERR_POOL_FULL: see max_pool", q="SHOW pool_b"),
    *tool("sql", '{"hint": "set evil_pool"}', q="SET pool_size = 40"),
    assistant("I would also set idle_limit. Version 9.9.9 runs."),
    user("great, works"),
)
